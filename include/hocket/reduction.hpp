// SPDX-License-Identifier: Apache-2.0
// reduction.hpp: how the elements of all ranks become one: a ReduceOp, a sum of scaled inputs, or a function of the
// caller's. Values; copy them freely, from any thread.
//
//   comm.all_reduce(in, out, n, DataType::kFloat32, ReduceOp::kSum);
//   comm.all_reduce(in, out, n, DataType::kFloat32, Reduction::premultiplied(1.0 / steps));
//   comm.all_reduce(span, Reduction::user<double>("hypot", [](double a, double b) { return std::hypot(a, b); }));
//
// What each ReduceOp gives, to the bit: 16-bit and 8-bit floats add up in float32 wherever several ranks' elements meet
// in one step, and are rounded once there, to nearest even. Integers wrap, in their own width, so that int8 sums of
// many ranks soon do; an average divides the wrapped sum by the number of ranks and truncates toward zero. min and max
// give NaN if any rank has one, and -0 < +0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "hocket/types.hpp"

namespace [[gnu::visibility("default")]] hocket {

/// Whether a user's operator may reduce the ranks in any order. If not, they are combined in the order of their ranks,
/// which fewer algorithms do (and none beyond 64 ranks).
enum class Commutative : bool { kNo, kYes };

class Reduction {
 public:
  /// Combines `count` elements: in_out[i] = combine(in_out[i], in[i]), where in_out holds lower ranks than in when the
  /// operator is not commutative. Both are host memory, aligned to the element, and do not overlap. An element of the
  /// call may come in a piece of any length, and several threads may call at once.
  using Function = std::function<void(const void* in, void* in_out, std::size_t count)>;

  /// Not kPremultipliedSum or kUser: a call with a bare one of these is kInvalidArgument.
  Reduction(ReduceOp op) noexcept : op_(op) {}  // implicit: `ReduceOp::kSum` is a Reduction

  /// The sum of scalar * input over the ranks; each may have a scalar of its own. The product is rounded to the call's
  /// type before it is summed, so that all ranks get equal bits whatever the algorithm. The scalar counts in float32
  /// (float64 for that type); for integers it must be one that the type holds, else the call is kInvalidArgument.
  static Reduction premultiplied(double scalar) noexcept;
  /// The same; `scalar` is one element of the call's type in host memory (unaligned is fine), read when the call begins
  /// to run.
  static Reduction premultiplied(const void* scalar) noexcept;

  /// An operator of the caller's for calls on elements of `type`, on host memory. It must be associative. The ranks
  /// must name it equally and agree on `commutative`: else the call is a mismatch. What it throws ends the communicator
  /// with Code::kAborted and its text.
  static Reduction user(std::string_view name, DataType type, Function function,
                        Commutative commutative = Commutative::kYes);
  /// The same from a function of two elements: T combine(T lower, T higher).
  template <class T, class Combine>
  static Reduction user(std::string_view name, Combine combine, Commutative commutative = Commutative::kYes);

  ReduceOp op() const noexcept { return op_; }
  /// The user's name of the operator; else that of op().
  std::string_view name() const noexcept;

  struct [[gnu::visibility("hidden")]] User;
  const User* user() const noexcept { return user_.get(); }
  double scalar() const noexcept { return scalar_; }
  /// Where the scalar is read from; null if it was given by value.
  const void* scalar_at() const noexcept { return scalar_at_; }
  bool has_scalar() const noexcept { return has_scalar_; }

 private:
  ReduceOp op_;
  bool has_scalar_ = false;
  double scalar_ = 0;
  const void* scalar_at_ = nullptr;
  std::shared_ptr<const User> user_;
};

template <class T, class Combine>
Reduction Reduction::user(std::string_view name, Combine combine, Commutative commutative) {
  return user(
      name, data_type_of<T>(),
      [combine = std::move(combine)](const void* in, void* in_out, std::size_t count) {
        const T* from = static_cast<const T*>(in);
        T* to = static_cast<T*>(in_out);
        for (std::size_t i = 0; i < count; ++i) to[i] = combine(to[i], from[i]);
      },
      commutative);
}

}  // namespace gnu::visibility("default")]]hocket
