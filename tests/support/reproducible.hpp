// SPDX-License-Identifier: Apache-2.0
// support/reproducible.hpp: reductions whose bits depend on the order of the additions, and the bits that rank order
// gives, for tests of HOCKET_REPRODUCIBLE.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/format.hpp"
#include "base/status.hpp"
#include "hocket/hocket.hpp"

namespace hocket::test {

/// Elements of each reduction: whole chunks for 1 to 6 ranks.
inline constexpr std::size_t kReproducibleCount = 1500;

/// How an element is read and rounded, what it is added up in, and the exponents of the inputs: their sums neither
/// overflow nor are exact.
template <class T>
struct Reproducible;
template <class T>
struct ReproducibleSmall {
  using Wide = float;
  static float wide(T value) { return to_float(value); }
};
template <>
struct Reproducible<float> {
  using Wide = float;
  static constexpr int kExponents = 20;
  static float wide(float value) { return value; }
  static float narrow(float value) { return value; }
};
template <>
struct Reproducible<double> {
  using Wide = double;
  static constexpr int kExponents = 40;
  static double wide(double value) { return value; }
  static double narrow(double value) { return value; }
};
template <>
struct Reproducible<Bfloat16> : ReproducibleSmall<Bfloat16> {
  static constexpr int kExponents = 20;
  static Bfloat16 narrow(float value) { return to_bfloat16(value); }
};
template <>
struct Reproducible<Half> : ReproducibleSmall<Half> {
  static constexpr int kExponents = 6;
  static Half narrow(float value) { return to_half(value); }
};
template <>
struct Reproducible<Float8E4M3> : ReproducibleSmall<Float8E4M3> {
  static constexpr int kExponents = 3;
  static Float8E4M3 narrow(float value) { return to_float8_e4m3(value); }
};
template <>
struct Reproducible<Float8E5M2> : ReproducibleSmall<Float8E5M2> {
  static constexpr int kExponents = 5;
  static Float8E5M2 narrow(float value) { return to_float8_e5m2(value); }
};

/// The input of `rank` at `index`.
template <class T>
T reproducible_input(Rank rank, std::size_t index) {
  using R = Reproducible<T>;
  std::uint64_t h = (static_cast<std::uint64_t>(rank + 1) << 40) + index;  // splitmix64
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  h ^= h >> 31;
  const double fraction = static_cast<double>(h >> 11) * 0x1p-53 * 2 - 1;
  const int exponent = static_cast<int>(h % static_cast<std::uint64_t>(2 * R::kExponents + 1)) - R::kExponents;
  return R::narrow(static_cast<typename R::Wide>(std::ldexp(fraction, exponent)));
}

/// Their sum in rank order, rounded once.
template <class T>
T reproducible_sum(int ranks, std::size_t index) {
  using R = Reproducible<T>;
  typename R::Wide sum = R::wide(reproducible_input<T>(0, index));
  for (Rank r = 1; r < ranks; ++r) sum += R::wide(reproducible_input<T>(r, index));
  return R::narrow(sum);
}

/// FNV-1a of bytes, going on from `hash`.
inline std::uint64_t hash_of(const void* data, std::size_t bytes, std::uint64_t hash = 0xcbf29ce484222325) {
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3;
  return hash;
}

/// The hash that a world of `ranks` must come to.
template <class T>
std::uint64_t reproducible_hash_of(int ranks, std::uint64_t hash) {
  for (std::size_t i = 0; i < kReproducibleCount; ++i) {
    const T sum = reproducible_sum<T>(ranks, i);
    hash = hash_of(&sum, sizeof sum, hash);
  }
  return hash;
}
inline std::uint64_t reproducible_hash(int ranks) {
  std::uint64_t hash = hash_of(nullptr, 0);
  hash = reproducible_hash_of<float>(ranks, hash);
  hash = reproducible_hash_of<double>(ranks, hash);
  hash = reproducible_hash_of<Bfloat16>(ranks, hash);
  hash = reproducible_hash_of<Half>(ranks, hash);
  hash = reproducible_hash_of<Float8E4M3>(ranks, hash);
  return reproducible_hash_of<Float8E5M2>(ranks, hash);
}

/// One type by all collectives that reduce; all must give the same bytes, whose hash goes on from `hash`.
template <class T>
Status reproducible_calls(Communicator& comm, Rank root, const std::function<void()>& before, std::uint64_t& hash) {
  const DataType type = data_type_of<T>();
  const auto n = static_cast<std::size_t>(comm.size());
  constexpr std::size_t kCount = kReproducibleCount;
  std::vector<T> in(kCount), reduced(kCount), other(kCount), part(kCount);
  for (std::size_t i = 0; i < kCount; ++i) in[i] = reproducible_input<T>(comm.rank(), i);
  const auto same = [&](std::string_view what) -> Status {
    if (std::memcmp(reduced.data(), other.data(), kCount * sizeof(T)) == 0) return {};
    return error(Code::kInternal, "{} of {} gives other bits than all_reduce", what, to_string(type));
  };

  before();
  HOCKET_TRY(comm.all_reduce(in.data(), reduced.data(), kCount, type, ReduceOp::kSum));
  before();
  HOCKET_TRY(comm.reduce(in.data(), other.data(), kCount, type, ReduceOp::kSum, root));
  HOCKET_TRY(comm.broadcast(other.data(), other.data(), kCount, type, root));
  HOCKET_TRY(same("reduce"));

  before();
  HOCKET_TRY(comm.reduce_scatter(in.data(), part.data(), kCount / n, type, ReduceOp::kSum));
  HOCKET_TRY(comm.all_gather(part.data(), other.data(), kCount / n, type));
  HOCKET_TRY(same("reduce_scatter"));

  // The first rank none, the last one what is left.
  std::vector<std::size_t> counts(n);
  std::size_t left = kCount;
  for (std::size_t r = 1; r + 1 < n; ++r) left -= counts[r] = 13 * r;
  counts[n - 1] = left;
  before();
  HOCKET_TRY(comm.reduce_scatter_v(in.data(), part.data(), counts, type, ReduceOp::kSum));
  HOCKET_TRY(comm.all_gather_v(part.data(), other.data(), counts, type));
  HOCKET_TRY(same("reduce_scatter_v"));
  hash = hash_of(reduced.data(), kCount * sizeof(T), hash);
  return {};
}

/// All types; `before` is called before each reduction. The hash of all results.
inline Result<std::uint64_t> reproducible_run(Communicator& comm, Rank root, const std::function<void()>& before) {
  std::uint64_t hash = hash_of(nullptr, 0);
  HOCKET_TRY(reproducible_calls<float>(comm, root, before, hash));
  HOCKET_TRY(reproducible_calls<double>(comm, root, before, hash));
  HOCKET_TRY(reproducible_calls<Bfloat16>(comm, root, before, hash));
  HOCKET_TRY(reproducible_calls<Half>(comm, root, before, hash));
  HOCKET_TRY(reproducible_calls<Float8E4M3>(comm, root, before, hash));
  HOCKET_TRY(reproducible_calls<Float8E5M2>(comm, root, before, hash));
  return hash;
}

}  // namespace hocket::test
