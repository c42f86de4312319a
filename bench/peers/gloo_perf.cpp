// SPDX-License-Identifier: Apache-2.0
// gloo_perf.cpp: the collectives of Gloo, for bench/compare, which builds and starts it. Gloo has no shared memory
// between processes: its ranks talk over TCP, on one host through the loopback device. --setting is the all-reduce:
// "ring" or "bcube" (gloo::allreduce, which PyTorch calls), "halving_doubling" or "ring_chunked" (the older classes, in
// place). Reduce-scatter exists as halving and doubling only, in place.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/stat.h>

#include <memory>

#include "harness.hpp"

namespace {

using namespace hocket::peers;

class Gloo : public Library {
 public:
  Gloo(const Options& options, int rank, const std::string& host) : how_(options.setting), rank_(rank) {
    gloo::transport::tcp::attr where;
    where.hostname = host;
    const std::string folder = options.segment + ".store";
    mkdir(folder.c_str(), 0700);
    gloo::rendezvous::FileStore store(folder);
    auto device = gloo::transport::tcp::CreateDevice(where);
    context_ = std::make_shared<gloo::rendezvous::Context>(rank, options.ranks);
    context_->connectFullMesh(store, device);
  }
  bool has_threads() const override { return true; }

  void begin(const Call& c) override {
    with_type(c.type, [&](auto zero) {
      using T = decltype(zero);
      const int count = static_cast<int>(c.count);
      const std::vector<T*> pointers{reinterpret_cast<T*>(c.output)};
      const std::vector<int> counts(static_cast<std::size_t>(context_->size), count);
      if (c.what == What::kReduceScatter) {
        algorithm_ =
            std::make_unique<gloo::ReduceScatterHalvingDoubling<T>>(context_, pointers, count * context_->size, counts);
      } else if (c.what == What::kAllReduce && how_ == "halving_doubling") {
        algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<T>>(context_, pointers, count);
      } else if (c.what == What::kAllReduce && how_ == "ring_chunked") {
        algorithm_ = std::make_unique<gloo::AllreduceRingChunked<T>>(context_, pointers, count);
      }
      sum_ = [](void* to, const void* a, const void* b, std::size_t n) { gloo::sum<T>(to, a, b, n); };
    });
  }
  bool in_place(const Call&) const override { return algorithm_ != nullptr; }
  void finish() override { algorithm_.reset(); }

  void call(const Call& c) override {
    const auto ranks = static_cast<std::size_t>(context_->size);
    ++tag_;
    if (algorithm_) {
      algorithm_->run();
      return;
    }
    with_type(c.type, [&](auto zero) {
      using T = decltype(zero);
      T* input = reinterpret_cast<T*>(c.input);
      T* output = reinterpret_cast<T*>(c.output);
      switch (c.what) {
        case What::kAllReduce: {
          gloo::AllreduceOptions options(context_);
          options.setInput(input, c.count);
          options.setOutput(output, c.count);
          options.setAlgorithm(how_ == "bcube" ? gloo::AllreduceOptions::Algorithm::BCUBE
                                               : gloo::AllreduceOptions::Algorithm::RING);
          options.setReduceFunction(sum_);
          options.setTag(tag_);
          gloo::allreduce(options);
          break;
        }
        case What::kAllGather: {
          gloo::AllgatherOptions options(context_);
          options.setInput(input, c.count);
          options.setOutput(output, c.count * ranks);
          options.setTag(tag_);
          gloo::allgather(options);
          break;
        }
        case What::kAllToAll: {
          gloo::AlltoallOptions options(context_);
          options.setInput(input, c.count * ranks);
          options.setOutput(output, c.count * ranks);
          options.setTag(tag_);
          gloo::alltoall(options);
          break;
        }
        case What::kBroadcast: {
          gloo::BroadcastOptions options(context_);
          if (rank_ == 0) options.setInput(output, c.count);
          options.setOutput(output, c.count);
          options.setRoot(0);
          options.setTag(tag_);
          gloo::broadcast(options);
          break;
        }
        case What::kReduceScatter: break;  // above
      }
      return 0;
    });
  }

 private:
  const std::string how_;
  const int rank_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::unique_ptr<gloo::Algorithm> algorithm_;
  gloo::AllreduceOptions::Func sum_;
  std::uint32_t tag_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  return start_ranks(options, [&](int rank) {
    try {
      const char* host = std::getenv(rank % 2 == 0 ? "GLOO_PERF_HOST_0" : "GLOO_PERF_HOST_1");
      Meeting meeting(options.segment, rank, options.ranks);
      Gloo library(options, rank, host != nullptr ? host : "127.0.0.1");
      Server(library, meeting, options).run();
      std::_Exit(0);  // its destructors wait for peers that may be gone
    } catch (const std::exception& problem) {
      give_up(std::string("gloo: ") + problem.what());
    }
  });
}
