// SPDX-License-Identifier: Apache-2.0
// hocket_perf.cpp: hocket's collectives, for bench/compare, timed by the same harness as its peers'. Settings are
// those of the environment. --threads: ranks are threads of one process; --symmetric: buffers are mem_alloc memory.
#include "hocket/communicator.hpp"

#include <memory>
#include <optional>

#include "bench/peers/harness.hpp"

namespace {

using namespace hocket::peers;

void check(const hocket::Status& status) {
  if (!status.ok()) give_up("hocket: " + status.to_string());
}

hocket::DataType type_of(Type type) {
  switch (type) {
    case Type::kFloat64: return hocket::DataType::kFloat64;
    case Type::kInt32: return hocket::DataType::kInt32;
    case Type::kInt64: return hocket::DataType::kInt64;
    case Type::kBfloat16: return hocket::DataType::kBfloat16;
    case Type::kFloat16: return hocket::DataType::kFloat16;
    default: return hocket::DataType::kFloat32;
  }
}

class Hocket : public Library {
 public:
  Hocket(hocket::Communicator communicator, bool symmetric)
      : communicator_(std::move(communicator)), symmetric_(symmetric) {}

  std::byte* allocate(std::size_t bytes) override {
    if (!symmetric_) return Library::allocate(bytes);
    auto memory = communicator_.mem_alloc(bytes);
    check(memory.status());
    return static_cast<std::byte*>(*memory);
  }
  void release(std::byte* memory, std::size_t bytes) override {
    if (!symmetric_) return Library::release(memory, bytes);
    check(communicator_.mem_free(memory));
  }
  bool takes(Type) const override { return true; }
  void begin(const Call& call) override { type_ = type_of(call.type); }
  void call(const Call& c) override {
    switch (c.what) {
      case What::kAllReduce:
        return check(communicator_.all_reduce(c.input, c.output, c.count, type_, hocket::ReduceOp::kSum));
      case What::kAllGather: return check(communicator_.all_gather(c.input, c.output, c.count, type_));
      case What::kReduceScatter:
        return check(communicator_.reduce_scatter(c.input, c.output, c.count, type_, hocket::ReduceOp::kSum));
      case What::kAllToAll: return check(communicator_.all_to_all(c.input, c.output, c.count, type_));
      // In place, as MPI_Bcast is.
      case What::kBroadcast: return check(communicator_.broadcast(c.output, c.output, c.count, type_, 0));
    }
  }

 private:
  hocket::Communicator communicator_;
  const bool symmetric_;
  hocket::DataType type_ = hocket::DataType::kFloat32;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  return start_ranks(options, [&](int rank) {
    Meeting meeting(options.segment, rank, options.ranks);
    place(rank, options.ranks, true);
    const hocket::Exchange exchange = [&](std::span<const std::byte> mine, std::span<std::byte> all) {
      meeting.all_gather(mine.data(), mine.size(), all.data());
      return hocket::Status();
    };
    auto settings = hocket::Settings::from_environment();
    check(settings.status());
    auto communicator = hocket::Communicator::create(rank, options.ranks, exchange, *settings);
    check(communicator.status());
    if (rank == 0) std::fprintf(stderr, "%s\n", communicator->describe().c_str());
    Hocket library(std::move(*communicator), options.symmetric);
    Server(library, meeting, options).run();
  });
}
