// SPDX-License-Identifier: Apache-2.0
#include "core/reduction.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/status.hpp"
#include "exec/reduce_scalar.hpp"

namespace hocket {
namespace {

/// FNV-1a (Fowler, Noll, Vo): the same on all machines.
std::uint64_t digest(std::string_view text, std::uint64_t h = 0xcbf29ce484222325u) {
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

template <DataType type>
std::uint64_t bits_of_scalar(const Reduction& reduction) {
  using Accumulator = typename Element<type>::Accumulator;
  Accumulator value;
  if (const void* at = reduction.scalar_at(); at != nullptr) {
    typename Element<type>::Stored stored;
    std::memcpy(&stored, at, sizeof stored);
    value = Element<type>::load(stored);
  } else {
    value = static_cast<Accumulator>(reduction.scalar());
  }
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);  // little endian: the low bytes
  return bits;
}

template <class T>
bool holds(double value) {
  // The limits as powers of two, which a double has exactly.
  const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
  return std::nearbyint(value) == value && value < beyond && value >= (std::is_signed_v<T> ? -beyond : 0.0);
}

bool is_held(double value, DataType type) {
  switch (type) {
    case DataType::kInt8: return holds<std::int8_t>(value);
    case DataType::kUint8: return holds<std::uint8_t>(value);
    case DataType::kInt32: return holds<std::int32_t>(value);
    case DataType::kUint32: return holds<std::uint32_t>(value);
    case DataType::kInt64: return holds<std::int64_t>(value);
    case DataType::kUint64: return holds<std::uint64_t>(value);
    default: return true;
  }
}

}  // namespace

Reduction Reduction::premultiplied(double scalar) noexcept {
  Reduction r(ReduceOp::kPremultipliedSum);
  r.has_scalar_ = true;
  r.scalar_ = scalar;
  return r;
}

Reduction Reduction::premultiplied(const void* scalar) noexcept {
  Reduction r(ReduceOp::kPremultipliedSum);
  r.has_scalar_ = scalar != nullptr;
  r.scalar_at_ = scalar;
  return r;
}

Reduction Reduction::user(std::string_view name, DataType type, Function function, Commutative commutative) {
  Reduction r(ReduceOp::kUser);
  auto made = std::make_shared<User>();
  made->name = name;
  made->type = type;
  made->function = std::move(function);
  made->commutative = commutative;
  const char properties[] = {static_cast<char>(type), commutative == Commutative::kYes};
  made->id = digest(std::string_view(properties, sizeof properties), digest(name)) | 1;
  r.user_ = std::move(made);
  return r;
}

std::string_view Reduction::name() const noexcept {
  return user_ ? std::string_view(user_->name) : to_string(op_);
}

Status check_reduction(const Reduction& reduction, DataType type) {
  if (static_cast<int>(reduction.op()) >= kReduceOpCount)
    return error(Code::kInvalidArgument, "{} is no reduction", static_cast<int>(reduction.op()));
  if (reduction.op() == ReduceOp::kPremultipliedSum) {
    if (!reduction.has_scalar())
      return error(Code::kInvalidArgument,
                   "a premultiplied sum needs its scalar: pass Reduction::premultiplied(…) with one that is not null");
    if (reduction.scalar_at() == nullptr && !is_held(reduction.scalar(), type))
      return error(Code::kInvalidArgument, "the scalar {} of a premultiplied sum is no {}", reduction.scalar(),
                   to_string(type));
  }
  if (reduction.op() == ReduceOp::kUser) {
    const Reduction::User* user = reduction.user();
    if (user == nullptr)
      return error(Code::kInvalidArgument, "an operator of the caller's is made by Reduction::user(…)");
    if (user->name.empty()) return error(Code::kInvalidArgument, "an operator of the caller's needs a name");
    if (!user->function) return error(Code::kInvalidArgument, "the operator '{}' has no function", user->name);
    if (user->type != type)
      return error(Code::kInvalidArgument, "the operator '{}' is for {}, the call's elements are {}", user->name,
                   to_string(user->type), to_string(type));
  }
  return {};
}

std::uint64_t scalar_bits(const Reduction& reduction, DataType type) {
  switch (type) {
    case DataType::kFloat32: return bits_of_scalar<DataType::kFloat32>(reduction);
    case DataType::kFloat64: return bits_of_scalar<DataType::kFloat64>(reduction);
    case DataType::kBfloat16: return bits_of_scalar<DataType::kBfloat16>(reduction);
    case DataType::kFloat16: return bits_of_scalar<DataType::kFloat16>(reduction);
    case DataType::kInt32: return bits_of_scalar<DataType::kInt32>(reduction);
    case DataType::kInt64: return bits_of_scalar<DataType::kInt64>(reduction);
    case DataType::kInt8: return bits_of_scalar<DataType::kInt8>(reduction);
    case DataType::kUint8: return bits_of_scalar<DataType::kUint8>(reduction);
    case DataType::kUint32: return bits_of_scalar<DataType::kUint32>(reduction);
    case DataType::kUint64: return bits_of_scalar<DataType::kUint64>(reduction);
    case DataType::kFloat8E4M3: return bits_of_scalar<DataType::kFloat8E4M3>(reduction);
    case DataType::kFloat8E5M2: return bits_of_scalar<DataType::kFloat8E5M2>(reduction);
  }
  return 0;
}

}  // namespace hocket
