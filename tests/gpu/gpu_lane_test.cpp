// SPDX-License-Identifier: Apache-2.0
// gpu_lane_test.cpp: several ranks on one GPU, every lane a block of one cooperative launch: each result compared
// exactly with a direct computation, a replayed graph, an abort; then a table of times measured on that GPU.
//
// Exits 0: all right; 1: something is wrong; 77: there is no GPU that it can run on, and why.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>

#include "checker/worlds.hpp"
#include "exec/cuda_lane.hpp"
#include "exec/device_channels.hpp"
#include "exec/ends.hpp"
#include "gpu/device_cases.hpp"

namespace hocket {
namespace {

using test::DeviceCase;

constexpr int kSkip = 77;
constexpr std::uint64_t kSlots = 4;
constexpr std::uint64_t kSlotBytes = 128 << 10;
constexpr std::uint64_t kArenaBytes = 192 << 20;
constexpr std::uint64_t kGuardBytes = 256;

/// The test has no use for a CUDA call that failed.
void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAILED: %s: %s\n", what, cudaGetErrorString(error));
  std::fflush(stdout);
  std::exit(1);
}

struct DeviceBuffer {
  explicit DeviceBuffer(std::uint64_t size) : bytes(std::max<std::uint64_t>(size, 16)) {
    must(cudaMalloc(&memory, bytes), "cudaMalloc");
    must(cudaMemset(memory, 0, bytes), "cudaMemset");
  }
  ~DeviceBuffer() { (void)cudaFree(memory); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  std::byte* at(std::uint64_t offset = 0) const { return static_cast<std::byte*>(memory) + offset; }
  void* memory = nullptr;
  std::uint64_t bytes;
};

void upload(std::byte* to, const void* from, std::uint64_t bytes) {
  if (bytes != 0) must(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

/// Ranks that share the device; their channels live from call to call.
class World {
 public:
  explicit World(int size) : layout_(static_cast<std::uint64_t>(size), kSlots, kSlotBytes, 1), size_(size) {
    must(cudaStreamCreate(&stream_), "cudaStreamCreate");
    must(cudaEventCreate(&begin_), "cudaEventCreate");
    must(cudaEventCreate(&end_), "cudaEventCreate");
    must(cudaHostAlloc(reinterpret_cast<void**>(&errors_), 64, cudaHostAllocMapped), "cudaHostAlloc");
    *errors_ = 0;
    std::vector<std::byte*> blocks, arenas;
    for (int r = 0; r < size; ++r) {
      blocks_.push_back(std::make_unique<DeviceBuffer>(device_block_bytes(layout_)));
      arenas_.push_back(std::make_unique<DeviceBuffer>(kArenaBytes));
      blocks.push_back(blocks_.back()->at());
      arenas.push_back(arenas_.back()->at());
    }
    for (int r = 0; r < size; ++r) {
      const std::vector<DeviceChannel> ends = device_channels(layout_, r, blocks, arenas);
      channels_.push_back(std::make_unique<DeviceBuffer>(ends.size() * sizeof(DeviceChannel)));
      upload(channels_.back()->at(), ends.data(), ends.size() * sizeof(DeviceChannel));
    }
    calls_memory_ = std::make_unique<DeviceBuffer>(static_cast<std::uint64_t>(size) * sizeof(DeviceCall));
  }
  ~World() {
    (void)cudaFreeHost(errors_);
    (void)cudaEventDestroy(begin_);
    (void)cudaEventDestroy(end_);
    (void)cudaStreamDestroy(stream_);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Uploads all ranks' calls; false: the algorithm can't run so. `misalign`: addresses that no vector access can use.
  bool prepare(const DeviceCase& c, std::uint64_t misalign = 0) {
    c_ = c;
    lanes_ = 0;
    calls_.assign(static_cast<std::size_t>(size_), {});
    flats_.clear();
    work_.clear();
    faults_.clear();
    ++hash_;
    const std::uint64_t element = size_of(c.type);
    for (int r = 0; r < size_; ++r) {
      const std::size_t at = static_cast<std::size_t>(r);
      Result<Plan> plan = plan_of(*c.algorithm, {.world = size_, .rank = r, .root = c.root, .lanes = c.lanes});
      if (!plan.ok()) {
        std::printf("FAILED: %s\n", std::string(plan.status().text()).c_str());
        std::exit(1);
      }
      if (c.protocol == Protocol::kPacket && !qualifies_for_packets(*plan).ok()) return false;
      if (c.protocol != Protocol::kBulk && (c.algorithm->zero_copy || c.algorithm->boards)) return false;

      const std::vector<std::byte> flat = flatten(*plan);
      const Result<PlanView> view = view_of(flat);
      flats_.push_back(std::make_unique<DeviceBuffer>(flat.size()));
      upload(flats_.back()->at(), flat.data(), flat.size());
      DeviceCall& call = calls_[at];
      call.plan = moved(*view, flat.data(), flats_.back()->at());
      call.flat = flats_.back()->at();
      call.flat_bytes = flat.size();
      lanes_ = std::max(lanes_, call.plan.lane_count);

      const std::uint64_t pieces = static_cast<std::uint64_t>(plan->header.pieces);
      const std::uint64_t most = (c.protocol == Protocol::kPacket ? kDevicePacketBytes : kSlotBytes) / pieces;
      const std::uint64_t tile_bytes = std::max<std::uint64_t>(16, std::min(c.tile_bytes, most) / 16 * 16);
      call.shape.count = c.count;
      call.shape.unit = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, 16 / element));
      call.shape.slots = kSlots;
      call.shape.tiles_per_round = c.tiles_per_round;
      call.shape.tile = plan->header.uses_slots ? tile_bytes / element : kWholeChunk;
      work_.push_back(
          std::make_unique<DeviceBuffer>(static_cast<std::uint64_t>(plan->header.work_entries) * tile_bytes));
      faults_.push_back(std::make_unique<DeviceBuffer>(plan->lanes.size() * sizeof(DeviceFault)));

      const std::uint64_t input_bytes = test::input_count(c, size_) * element;
      const std::uint64_t output_bytes = test::output_count(c, size_) * element;
      call.input_offset = 256 + misalign;
      call.output_offset = (call.input_offset + input_bytes + kGuardBytes) / 256 * 256 + 256 + misalign;
      if (call.output_offset + output_bytes + kGuardBytes > kArenaBytes) {
        std::printf("FAILED: a call of %llu bytes is larger than the test's memory\n",
                    static_cast<unsigned long long>(output_bytes));
        std::exit(1);
      }
      const DeviceBuffer& arena = *arenas_[at];
      must(cudaMemset(arena.at(call.output_offset - misalign), 0xee, output_bytes + misalign + kGuardBytes),
           "cudaMemset");
      const std::vector<std::byte> input = test::input_of(c, size_, r);
      upload(arena.at(call.input_offset), input.data(), input.size());

      call.input = arena.at(call.input_offset);
      call.output = arena.at(call.output_offset);
      call.work = work_.back()->at();
      call.board = blocks_[at]->at(layout_.board(0));
      call.channels = reinterpret_cast<DeviceChannel*>(channels_[at]->at());
      call.faults = reinterpret_cast<DeviceFault*>(faults_.back()->at());
      call.errors = errors_;
      call.slot_bytes = kSlotBytes;
      call.hash = hash_;
      call.world = size_;
      call.element_bytes = static_cast<std::uint32_t>(element);
      call.type = c.type;
      call.op = c.op;
      call.protocol = c.protocol;
    }
    upload_calls();
    return true;
  }
  void upload_calls() { upload(calls_memory_->at(), calls_.data(), calls_.size() * sizeof(DeviceCall)); }

  void launch() {
    void* calls = calls_memory_->memory;
    void* arguments[] = {&calls};
    must(cudaLaunchCooperativeKernel(lane_kernel(), dim3(std::max(lanes_, 1u), static_cast<unsigned>(size_)),
                                     dim3(kCudaLaneThreads), arguments, 0, stream_),
         "cudaLaunchCooperativeKernel");
  }

  /// Waits for what was launched. False: it took longer than `limit` and was told to stop.
  bool finish(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    const auto until = std::chrono::steady_clock::now() + limit;
    bool in_time = true;
    for (;;) {
      const cudaError_t state = cudaStreamQuery(stream_);
      if (state == cudaSuccess) return in_time;
      if (state != cudaErrorNotReady) must(state, "the kernel");
      if (in_time && std::chrono::steady_clock::now() > until) {
        __atomic_store_n(errors_, 1, __ATOMIC_RELEASE);
        in_time = false;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  /// Wrong elements, all ranks together; also a write behind an output counts.
  std::uint64_t wrong() {
    const std::uint64_t element = size_of(c_.type);
    std::uint64_t wrong = 0;
    for (int r = 0; r < size_; ++r) {
      if (!test::has_output(c_, r)) continue;
      const std::vector<std::byte> expected = test::expected_of(c_, size_, r);
      std::vector<std::byte> output(expected.size() + kGuardBytes);
      must(cudaMemcpy(output.data(), calls_[static_cast<std::size_t>(r)].output, output.size(), cudaMemcpyDeviceToHost),
           "copy from the device");
      for (std::size_t e = 0; e < expected.size(); e += element)
        wrong += std::memcmp(output.data() + e, expected.data() + e, element) != 0;
      for (std::size_t b = expected.size(); b < output.size(); ++b) wrong += output[b] != std::byte{0xee};
    }
    return wrong;
  }

  /// Microseconds a call, over `times` launches one after the other.
  double time(int times) {
    must(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    for (int i = 0; i < times; ++i) launch();
    must(cudaEventRecord(end_, stream_), "cudaEventRecord");
    if (!finish()) return -1;
    float ms = 0;
    must(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(ms) * 1000 / times;
  }

  std::string name() const {
    std::string text;
    for (const std::string_view part : {to_string(c_.algorithm->collective), c_.algorithm->name, to_string(c_.protocol),
                                        to_string(c_.type), to_string(c_.op)})
      text.append(part).append(" ");
    return text + "ranks " + std::to_string(size_) + " count " + std::to_string(c_.count) + " tile_bytes " +
           std::to_string(c_.tile_bytes) + " lanes " + std::to_string(c_.lanes) + " root " + std::to_string(c_.root);
  }
  std::string faults() const {
    std::string text;
    for (std::size_t r = 0; r < calls_.size(); ++r)
      for (std::uint32_t l = 0; l < calls_[r].plan.lane_count; ++l) {
        const DeviceFault fault = fault_of(r, l);
        if (fault.kind != DeviceFault::kNone)
          text += "\n  rank " + std::to_string(r) + " lane " + std::to_string(l) + ": fault " +
                  std::to_string(fault.kind) + " at step kind " + std::to_string(fault.waiting_op) + ", channel " +
                  std::to_string(fault.channel) + ", peer " + std::to_string(fault.peer);
      }
    return text;
  }
  DeviceFault fault_of(std::size_t rank, std::uint32_t lane) const {
    DeviceFault fault;
    must(cudaMemcpy(&fault, calls_[rank].faults + lane, sizeof fault, cudaMemcpyDeviceToHost), "copy from the device");
    return fault;
  }

  std::vector<DeviceCall>& calls() { return calls_; }
  unsigned lanes() const { return lanes_; }
  cudaStream_t stream() const { return stream_; }

 private:
  BlockLayout layout_;
  int size_;
  DeviceCase c_;
  unsigned lanes_ = 0;
  std::uint64_t hash_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::uint64_t* errors_ = nullptr;
  std::vector<DeviceCall> calls_;
  std::vector<std::unique_ptr<DeviceBuffer>> blocks_, arenas_, channels_, flats_, work_, faults_;
  std::unique_ptr<DeviceBuffer> calls_memory_;
};

int failures = 0;
void fail(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

void exact(int size, std::mt19937_64& random, unsigned most_blocks) {
  World world(size);
  int runs = 0;
  for (int round = 0; round < 6; ++round)
    for (const Algorithm& algorithm : algorithms()) {
      if (algorithm.collective == Collective::kReceive) continue;
      for (int p = 0; p < kProtocolCount; ++p) {
        DeviceCase c;
        const std::uint64_t n = static_cast<std::uint64_t>(size);
        c.algorithm = &algorithm;
        c.protocol = static_cast<Protocol>(p);
        c.type = static_cast<DataType>(random() % kDataTypeCount);
        c.op = static_cast<ReduceOp>(random() % kDeviceOpCount);
        c.root = algorithm.collective == Collective::kSend ? 1 + static_cast<int>(random() % (n - 1))
                                                           : static_cast<int>(random() % n);
        c.lanes = algorithm.many_lanes ? 1 + static_cast<int>(random() % 4) : 1;
        const std::uint64_t counts[] = {
            0, 1, n - 1, n + 1, 7 * n + 3, random() % 5000, random() % 5000, random() % 300000};
        c.count = counts[random() % 8];
        c.tile_bytes = std::uint64_t{512} << random() % 9;
        c.tiles_per_round = 1 + static_cast<int>(random() % 3);
        if (!world.prepare(c, random() % 3 * size_of(c.type)) || world.lanes() * n > most_blocks) continue;
        world.launch();
        if (!world.finish()) {
          fail(world.name() + ": it did not end" + world.faults());
          return;
        }
        if (const std::uint64_t wrong = world.wrong(); wrong != 0)
          fail(world.name() + ": " + std::to_string(wrong) + " wrong");
        ++runs;
      }
    }
  std::printf("%d ranks: %d calls compared exactly\n", size, runs);
}

void replay() {
  World world(2);
  DeviceCase c;
  c.algorithm = find_algorithm(Collective::kAllReduce, "ring");
  c.count = 10007;
  c.lanes = 2;
  for (const Protocol protocol : {Protocol::kBulk, Protocol::kFirstLine, Protocol::kPacket}) {
    c.protocol = protocol;
    world.prepare(c);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    must(cudaStreamBeginCapture(world.stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    world.launch();
    must(cudaStreamEndCapture(world.stream(), &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    for (int i = 0; i < 50; ++i) must(cudaGraphLaunch(ready, world.stream()), "cudaGraphLaunch");
    if (!world.finish()) fail(world.name() + ": a replayed graph did not end" + world.faults());
    if (world.wrong() != 0) fail(world.name() + ": wrong after replays of a captured graph");
    must(cudaGraphExecDestroy(ready), "cudaGraphExecDestroy");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
  std::printf("captured graphs replayed 50 times in each protocol\n");
}

void abort_ends_the_wait() {
  World world(2);
  DeviceCase c;
  c.algorithm = find_algorithm(Collective::kAllReduce, "ring");
  c.count = 1000;
  world.prepare(c);
  world.calls()[1].plan.lane_count = 0;
  world.upload_calls();
  world.launch();
  if (world.finish(std::chrono::milliseconds(20))) fail("a call ended although its peer never came");
  const DeviceFault fault = world.fault_of(0, 0);
  if (fault.kind != DeviceFault::kAborted || fault.peer != 1) fail("an aborted wait does not name its peer");
  std::printf("an abort ends a kernel that waits\n");
}

void table(const char* device, unsigned most_blocks) {
  std::printf("\n# times measured on this %s; all ranks share it, so no link between GPUs is crossed\n", device);
  std::printf(
      "# float32 sum, launches back to back, mean of them; algbw is bytes over time as nccl-tests defines both\n");
  std::printf("%-15s %-10s %-11s %5s %5s %10s %10s %12s %6s\n", "collective", "algo", "proto", "ranks", "lanes",
              "bytes", "us", "algbw_GBps", "wrong");
  struct Row {
    Collective collective;
    const char* algorithm;
    Protocol protocol;
    int lanes;
    std::uint64_t bytes;
  };
  const Row rows[] = {
      {Collective::kAllReduce, "one_shot", Protocol::kPacket, 1, 8},
      {Collective::kAllReduce, "one_shot", Protocol::kFirstLine, 1, 8},
      {Collective::kAllReduce, "one_shot", Protocol::kBulk, 1, 8},
      {Collective::kAllReduce, "one_shot", Protocol::kPacket, 4, 8192},
      {Collective::kAllReduce, "one_shot", Protocol::kFirstLine, 4, 8192},
      {Collective::kAllReduce, "one_shot", Protocol::kBulk, 4, 8192},
      {Collective::kAllReduce, "two_shot", Protocol::kPacket, 8, 65536},
      {Collective::kAllReduce, "two_shot", Protocol::kBulk, 4, 1 << 20},
      {Collective::kAllReduce, "ring", Protocol::kBulk, 8, 1 << 20},
      {Collective::kAllReduce, "ring", Protocol::kBulk, 8, 16 << 20},
      {Collective::kAllGather, "direct", Protocol::kBulk, 8, 16 << 20},
      {Collective::kAllGather, "ring", Protocol::kBulk, 8, 16 << 20},
      {Collective::kReduceScatter, "direct", Protocol::kBulk, 8, 16 << 20},
      {Collective::kAllToAll, "direct", Protocol::kBulk, 8, 16 << 20},
      {Collective::kBroadcast, "chain", Protocol::kBulk, 8, 16 << 20},
  };
  for (const int size : {2, 4}) {
    World world(size);
    for (const Row& row : rows) {
      DeviceCase c;
      c.algorithm = find_algorithm(row.collective, row.algorithm);
      c.protocol = row.protocol;
      c.lanes = row.lanes;
      c.tile_bytes = kSlotBytes;
      const bool per_rank = row.collective == Collective::kAllGather || row.collective == Collective::kReduceScatter ||
                            row.collective == Collective::kAllToAll;
      c.count = row.bytes / 4 / (per_rank ? static_cast<std::uint64_t>(size) : 1);
      if (!world.prepare(c) || world.lanes() * static_cast<unsigned>(size) > most_blocks) {
        std::printf("# left out, it does not fit or qualify: %s\n", world.name().c_str());
        continue;
      }
      const double warm = world.time(5);
      const double us = warm < 0 ? warm : world.time(row.bytes > (1 << 20) ? 20 : 200);
      if (us < 0) {
        fail(world.name() + ": it did not end" + world.faults());
        return;
      }
      const std::uint64_t wrong = world.wrong();
      if (wrong != 0) fail(world.name() + ": " + std::to_string(wrong) + " wrong");
      std::printf("%-15s %-10s %-11s %5d %5u %10llu %10.2f %12.3f %6llu\n",
                  std::string(to_string(row.collective)).c_str(), row.algorithm,
                  std::string(to_string(row.protocol)).c_str(), size, world.lanes(),
                  static_cast<unsigned long long>(row.bytes), us, static_cast<double>(row.bytes) / us / 1000,
                  static_cast<unsigned long long>(wrong));
    }
  }
}

int run() {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no GPU: %s\n", error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error));
    return kSkip;
  }
  cudaDeviceProp device;
  must(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  cudaFuncAttributes kernel;
  if (const cudaError_t error = cudaFuncGetAttributes(&kernel, lane_kernel()); error != cudaSuccess) {
    std::printf("SKIPPED: %s has compute capability %d.%d, which this build has no kernel for: %s\n", device.name,
                device.major, device.minor, cudaGetErrorString(error));
    return kSkip;
  }
  if (!device.cooperativeLaunch) {
    std::printf("SKIPPED: %s has no cooperative launch\n", device.name);
    return kSkip;
  }
  int blocks = 0;
  must(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, lane_kernel(), static_cast<int>(kCudaLaneThreads), 0),
       "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const unsigned most_blocks = static_cast<unsigned>(blocks * device.multiProcessorCount);
  std::printf(
      "%s: %u lanes can be resident at once; a lane's thread has %d registers, a block %zu bytes of shared memory\n",
      device.name, most_blocks, kernel.numRegs, kernel.sharedSizeBytes);
  std::mt19937_64 random(20260);
  for (const int size : {2, 3, 4, 8}) exact(size, random, most_blocks);
  if (failures == 0) replay();
  if (failures == 0) abort_ends_the_wait();
  if (failures == 0) table(device.name, most_blocks);
  std::printf("%s\n", failures == 0 ? "OK" : "FAILED");
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hocket

int main() {
  return hocket::run();
}
