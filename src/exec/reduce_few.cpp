// SPDX-License-Identifier: Apache-2.0
#include "exec/reduce_few.hpp"

#include <cstring>

#include "exec/reduce_scalar.hpp"

namespace hocket {
namespace {

template <DataType type, ReduceOp op>
void few(void* to, const void* a, const void* b, std::size_t count) {
  using Stored = typename Element<type>::Stored;
  auto* out = static_cast<std::byte*>(to);
  const auto* first = static_cast<const std::byte*>(a);
  const auto* second = static_cast<const std::byte*>(b);
  for (std::size_t i = 0; i < count; ++i) {
    Stored values[2];
    std::memcpy(&values[0], first + i * sizeof(Stored), sizeof(Stored));
    std::memcpy(&values[1], second + i * sizeof(Stored), sizeof(Stored));
    const Stored result = reduce_element<type, op>(values, 2, false, 1);
    std::memcpy(out + i * sizeof(Stored), &result, sizeof(Stored));
    asm volatile("" ::: "memory");  // one by one: vectors are what this is not for
  }
}

template <DataType type>
ReduceFew of_type(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return few<type, ReduceOp::kSum>;
    case ReduceOp::kProduct: return few<type, ReduceOp::kProduct>;
    case ReduceOp::kMin: return few<type, ReduceOp::kMin>;
    case ReduceOp::kMax: return few<type, ReduceOp::kMax>;
    default: return nullptr;
  }
}

}  // namespace

ReduceFew reduce_few(DataType type, ReduceOp op, std::size_t count) {
  constexpr std::size_t kMost = 8;
  if (count == 0 || count > kMost) return nullptr;
  switch (type) {
    case DataType::kFloat32: return of_type<DataType::kFloat32>(op);
    case DataType::kFloat64: return of_type<DataType::kFloat64>(op);
    case DataType::kInt32: return of_type<DataType::kInt32>(op);
    case DataType::kInt64: return of_type<DataType::kInt64>(op);
    case DataType::kUint32: return of_type<DataType::kUint32>(op);
    case DataType::kUint64: return of_type<DataType::kUint64>(op);
    default: return nullptr;  // conversions and carries: the kernels do them better
  }
}

}  // namespace hocket
