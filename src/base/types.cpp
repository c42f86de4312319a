// SPDX-License-Identifier: Apache-2.0
// base/types.cpp: the names of types, operations and collectives, and the conversions of 16-bit and 8-bit floats.

#include "hocket/types.hpp"

#include "base/float16.hpp"
#include "base/float8.hpp"

namespace hocket {

std::string_view to_string(DataType type) noexcept {
  switch (type) {
    case DataType::kFloat32: return "float32";
    case DataType::kFloat64: return "float64";
    case DataType::kBfloat16: return "bfloat16";
    case DataType::kFloat16: return "float16";
    case DataType::kInt32: return "int32";
    case DataType::kInt64: return "int64";
    case DataType::kInt8: return "int8";
    case DataType::kUint8: return "uint8";
    case DataType::kUint32: return "uint32";
    case DataType::kUint64: return "uint64";
    case DataType::kFloat8E4M3: return "float8_e4m3";
    case DataType::kFloat8E5M2: return "float8_e5m2";
  }
  return "?";
}

std::string_view to_string(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kSum: return "sum";
    case ReduceOp::kProduct: return "product";
    case ReduceOp::kMin: return "min";
    case ReduceOp::kMax: return "max";
    case ReduceOp::kAverage: return "average";
    case ReduceOp::kPremultipliedSum: return "premultiplied_sum";
    case ReduceOp::kUser: return "user";
  }
  return "?";
}

std::string_view to_string(Collective collective) noexcept {
  switch (collective) {
    case Collective::kAllReduce: return "all_reduce";
    case Collective::kAllGather: return "all_gather";
    case Collective::kReduceScatter: return "reduce_scatter";
    case Collective::kAllToAll: return "all_to_all";
    case Collective::kBroadcast: return "broadcast";
    case Collective::kReduce: return "reduce";
    case Collective::kBarrier: return "barrier";
    case Collective::kSend: return "send";
    case Collective::kReceive: return "receive";
    case Collective::kGather: return "gather";
    case Collective::kScatter: return "scatter";
    case Collective::kAllGatherV: return "all_gather_v";
    case Collective::kReduceScatterV: return "reduce_scatter_v";
    case Collective::kAllToAllV: return "all_to_all_v";
    case Collective::kExchange: return "exchange";
  }
  return "?";
}

Bfloat16 to_bfloat16(float value) noexcept {
  return {float_to_bfloat16(value)};
}
Half to_half(float value) noexcept {
  return {float_to_half(value)};
}
float to_float(Bfloat16 value) noexcept {
  return bfloat16_to_float(value.bits);
}
float to_float(Half value) noexcept {
  return half_to_float(value.bits);
}
Float8E4M3 to_float8_e4m3(float value) noexcept {
  return {float_to_e4m3(value)};
}
Float8E5M2 to_float8_e5m2(float value) noexcept {
  return {float_to_e5m2(value)};
}
float to_float(Float8E4M3 value) noexcept {
  return e4m3_to_float(value.bits);
}
float to_float(Float8E5M2 value) noexcept {
  return e5m2_to_float(value.bits);
}

}  // namespace hocket
