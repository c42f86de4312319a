// SPDX-License-Identifier: Apache-2.0
// reduce_bench.cpp: how fast one core reduces and copies. GB/s (10^9 bytes a second) counts what is read and written:
// (sources + destinations) * bytes / time; for copies 2 * bytes / time. Everything is warm before it is timed.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "exec/copy.hpp"
#include "exec/reduce.hpp"

namespace hocket {
namespace {

struct Shape {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int sources = 2;
  bool stream = false;
  std::string target = {};
  int world_size = 0;  // > 0: the Move that finishes an average
};

// Bytes one destination has: state.range(0).
void run_reduce(benchmark::State& state, const Shape& shape) {
  if (!set_reduce_target_for_test(shape.target)) return state.SkipWithError("this CPU does not run the target");
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::vector<std::byte>> memory(static_cast<std::size_t>(shape.sources) + 1);
  std::vector<const void*> sources;
  for (auto& buffer : memory) {
    buffer.assign(bytes, std::byte{0x3c});  // a small normal number in every type
    sources.push_back(buffer.data());
  }
  sources.pop_back();
  void* destination = memory.back().data();
  ReduceArgs args{sources.data(),       shape.sources,   &destination, 1, bytes / size_of(shape.type),
                  shape.world_size > 0, shape.world_size};
  args.stream = shape.stream;
  const ReduceFunction reduce = reduce_function(shape.type, shape.op);
  reduce(args);
  for (auto _ : state) {
    reduce(args);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * (shape.sources + 1));
  state.SetLabel(std::string(reduce_target()));
  if (!set_reduce_target_for_test("")) state.SkipWithError("no target");
}

void run_copy(benchmark::State& state, CopyHint hint) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(bytes, std::byte{1}), to(bytes);
  for (auto _ : state) {
    copy(to.data(), from.data(), bytes, hint);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 2);
}

void run_scale(benchmark::State& state, DataType type) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<std::byte> from(bytes), to(bytes);
  const float factor = 0.5f;
  std::uint64_t scalar = 0;
  std::memcpy(&scalar, &factor, sizeof factor);
  const ScaleFunction scale = scale_function(type);
  for (auto _ : state) {
    scale(from.data(), to.data(), bytes / size_of(type), scalar);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 2);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (std::int64_t bytes : {8ll, 4096ll, 64ll << 10, 1ll << 20, 64ll << 20}) benchmark->Arg(bytes);
}

[[maybe_unused]] const bool registered = [] {
  auto add = [](const std::string& name, const Shape& shape) {
    benchmark::RegisterBenchmark(name.c_str(), run_reduce, shape)->Apply(sizes);
  };
  add("sum/float32", {});
  add("sum/float32/stream", {.stream = true});
  for (const char* target : {"avx512", "avx2", "baseline"}) {
    for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16, DataType::kInt64}) {
      add("sum/" + std::string(to_string(type)) + "/" + target, {.type = type, .target = target});
    }
  }
  for (int sources : {3, 4, 8, 16, 32}) add("sum/float32/sources:" + std::to_string(sources), {.sources = sources});
  for (int sources : {8, 16}) {
    add("sum/bfloat16/sources:" + std::to_string(sources), {.type = DataType::kBfloat16, .sources = sources});
  }
  for (ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kAverage}) {
    add(std::string(to_string(op)) + "/float32", {.op = op, .world_size = 3});
  }
  for (DataType type : {DataType::kInt8, DataType::kUint32, DataType::kFloat8E4M3, DataType::kFloat8E5M2})
    add("sum/" + std::string(to_string(type)), {.type = type});
  add("average/int8/world:3", {.type = DataType::kInt8, .op = ReduceOp::kAverage, .world_size = 3});
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8E4M3})
    benchmark::RegisterBenchmark(("scale/" + std::string(to_string(type))).c_str(), run_scale, type)->Apply(sizes);
  add("average/int64/world:3", {.type = DataType::kInt64, .op = ReduceOp::kAverage, .world_size = 3});
  benchmark::RegisterBenchmark("copy/cached", run_copy, CopyHint::kCached)->Apply(sizes);
  benchmark::RegisterBenchmark("copy/slot", run_copy, CopyHint::kSlot)->Apply(sizes);
  benchmark::RegisterBenchmark("copy/stream", run_copy, CopyHint::kStream)->Apply(sizes);
  return true;
}();

}  // namespace
}  // namespace hocket

BENCHMARK_MAIN();
