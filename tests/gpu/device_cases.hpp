// SPDX-License-Identifier: Apache-2.0
// tests/gpu/device_cases.hpp: calls for worlds of device lanes, their inputs and what they must give. For
// tests/unit/device_lane_test.cpp (host threads) and tests/gpu/gpu_lane_test.cpp (a GPU).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "algorithms/protocol.hpp"
#include "algorithms/registry.hpp"
#include "exec/reduce_scalar.hpp"

namespace hocket::test {

/// One call of a world, equal on all ranks.
struct DeviceCase {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::kBulk;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  int lanes = 1;
  std::uint64_t count = 0;
  std::uint64_t tile_bytes = 4096;
  int tiles_per_round = 1;
  bool in_place = false;
};

/// The uneven forms run here with equal counts.
inline bool is_all_to_all(Collective collective) {
  return collective == Collective::kAllToAll || collective == Collective::kAllToAllV ||
         collective == Collective::kExchange;
}
inline std::uint64_t input_count(const DeviceCase& c, int world) {
  const Collective collective = c.algorithm->collective;
  const bool rows = collective == Collective::kReduceScatter || collective == Collective::kReduceScatterV ||
                    collective == Collective::kScatter || is_all_to_all(collective);
  if (c.algorithm->collective == Collective::kBarrier) return 0;
  return rows ? c.count * static_cast<std::uint64_t>(world) : c.count;
}
inline std::uint64_t output_count(const DeviceCase& c, int world) {
  const Collective collective = c.algorithm->collective;
  const bool rows = collective == Collective::kAllGather || collective == Collective::kAllGatherV ||
                    collective == Collective::kGather || is_all_to_all(collective);
  if (c.algorithm->collective == Collective::kBarrier) return 0;
  return rows ? c.count * static_cast<std::uint64_t>(world) : c.count;
}
/// Only such ranks' outputs are defined.
inline bool has_output(const DeviceCase& c, int rank) {
  if (c.algorithm->collective == Collective::kReduce || c.algorithm->collective == Collective::kSend ||
      c.algorithm->collective == Collective::kGather)
    return rank == c.root;
  return c.algorithm->collective != Collective::kBarrier;
}

/// A small whole number for element i of rank's input: every sum, product and mean of five of them is exact, or rounds
/// once, in any order.
template <DataType type>
typename Element<type>::Stored value_of(const DeviceCase& c, int rank, std::uint64_t i) {
  const std::uint64_t mixed = static_cast<std::uint64_t>(rank) * 7 + i * 3 + c.count + (i >> 7);
  // An 8-bit float has the whole numbers up to 8 or 16.
  const bool few = type == DataType::kFloat8E4M3 || type == DataType::kFloat8E5M2;
  const int offset = c.op == ReduceOp::kProduct ? -1 : few ? 1 : 4;
  const std::uint64_t small = mixed % (c.op == ReduceOp::kProduct ? 2 : few ? 3 : 11);
  using Accumulator = typename Element<type>::Accumulator;
  const auto value = static_cast<Accumulator>(static_cast<int>(small) - offset);  // unsigned types wrap
  return Element<type>::store(value);
}

template <DataType type>
std::vector<std::byte> input_of(const DeviceCase& c, int world, int rank) {
  using Stored = typename Element<type>::Stored;
  std::vector<std::byte> bytes(input_count(c, world) * sizeof(Stored));
  for (std::uint64_t i = 0; i < input_count(c, world); ++i) {
    const Stored value = value_of<type>(c, rank, i);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

/// The output, computed directly; world <= 64.
template <DataType type>
std::vector<std::byte> expected_of(const DeviceCase& c, int world, int rank) {
  using Stored = typename Element<type>::Stored;
  const auto reduced = [&](std::uint64_t i) {
    std::array<Stored, 64> values;
    for (int r = 0; r < world; ++r) values[static_cast<std::size_t>(r)] = value_of<type>(c, r, i);
    switch (c.op) {
      case ReduceOp::kSum: return reduce_element<type, ReduceOp::kSum>(values.data(), world, true, world);
      case ReduceOp::kProduct: return reduce_element<type, ReduceOp::kProduct>(values.data(), world, true, world);
      case ReduceOp::kMin: return reduce_element<type, ReduceOp::kMin>(values.data(), world, true, world);
      case ReduceOp::kMax: return reduce_element<type, ReduceOp::kMax>(values.data(), world, true, world);
      case ReduceOp::kAverage: return reduce_element<type, ReduceOp::kAverage>(values.data(), world, true, world);
      case ReduceOp::kPremultipliedSum:
      case ReduceOp::kUser: break;  // not on devices
    }
    return Stored{};
  };
  const std::uint64_t own = static_cast<std::uint64_t>(rank) * c.count;
  std::vector<std::byte> bytes(output_count(c, world) * sizeof(Stored));
  for (std::uint64_t i = 0; i < output_count(c, world); ++i) {
    const int from = c.count == 0 ? 0 : static_cast<int>(i / c.count);
    Stored value{};
    switch (c.algorithm->collective) {
      case Collective::kAllReduce:
      case Collective::kReduce: value = reduced(i); break;
      case Collective::kReduceScatter:
      case Collective::kReduceScatterV: value = reduced(own + i); break;
      case Collective::kAllGather:
      case Collective::kAllGatherV:
      case Collective::kGather: value = value_of<type>(c, from, i % c.count); break;
      case Collective::kScatter: value = value_of<type>(c, c.root, own + i); break;
      case Collective::kAllToAll:
      case Collective::kAllToAllV:
      case Collective::kExchange: value = value_of<type>(c, from, own + i % c.count); break;
      case Collective::kBroadcast: value = value_of<type>(c, c.root, i); break;
      case Collective::kSend: value = value_of<type>(c, 0, i); break;
      default: break;  // no output, or not on devices yet
    }
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  return bytes;
}

inline std::vector<std::byte> input_of(const DeviceCase& c, int world, int rank) {
  switch (c.type) {
    case DataType::kFloat32: return input_of<DataType::kFloat32>(c, world, rank);
    case DataType::kFloat64: return input_of<DataType::kFloat64>(c, world, rank);
    case DataType::kBfloat16: return input_of<DataType::kBfloat16>(c, world, rank);
    case DataType::kFloat16: return input_of<DataType::kFloat16>(c, world, rank);
    case DataType::kInt32: return input_of<DataType::kInt32>(c, world, rank);
    case DataType::kInt64: return input_of<DataType::kInt64>(c, world, rank);
    case DataType::kInt8: return input_of<DataType::kInt8>(c, world, rank);
    case DataType::kUint8: return input_of<DataType::kUint8>(c, world, rank);
    case DataType::kUint32: return input_of<DataType::kUint32>(c, world, rank);
    case DataType::kUint64: return input_of<DataType::kUint64>(c, world, rank);
    case DataType::kFloat8E4M3: return input_of<DataType::kFloat8E4M3>(c, world, rank);
    case DataType::kFloat8E5M2: return input_of<DataType::kFloat8E5M2>(c, world, rank);
  }
  return {};
}
inline std::vector<std::byte> expected_of(const DeviceCase& c, int world, int rank) {
  switch (c.type) {
    case DataType::kFloat32: return expected_of<DataType::kFloat32>(c, world, rank);
    case DataType::kFloat64: return expected_of<DataType::kFloat64>(c, world, rank);
    case DataType::kBfloat16: return expected_of<DataType::kBfloat16>(c, world, rank);
    case DataType::kFloat16: return expected_of<DataType::kFloat16>(c, world, rank);
    case DataType::kInt32: return expected_of<DataType::kInt32>(c, world, rank);
    case DataType::kInt64: return expected_of<DataType::kInt64>(c, world, rank);
    case DataType::kInt8: return expected_of<DataType::kInt8>(c, world, rank);
    case DataType::kUint8: return expected_of<DataType::kUint8>(c, world, rank);
    case DataType::kUint32: return expected_of<DataType::kUint32>(c, world, rank);
    case DataType::kUint64: return expected_of<DataType::kUint64>(c, world, rank);
    case DataType::kFloat8E4M3: return expected_of<DataType::kFloat8E4M3>(c, world, rank);
    case DataType::kFloat8E5M2: return expected_of<DataType::kFloat8E5M2>(c, world, rank);
  }
  return {};
}

}  // namespace hocket::test
