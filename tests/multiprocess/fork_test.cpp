// SPDX-License-Identifier: Apache-2.0
// fork_test.cpp: a process that forks in the middle, and one that ends without a word: the child's calls say what is
// wrong, parents and peers go on or learn of it, and nothing hangs or crashes.
#include <gtest/gtest.h>

#include "support/faults.hpp"
#include "support/ranks.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::Processes;
using test::RankContext;

/// Runs `body` in a forked child; its exit code, minus its signal, or 1000 when it had to be killed as it did not end.
int in_child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    body();
    ::_exit(97);  // bodies end by themselves
  }
  int status = 0;
  for (int i = 0; i < 3000; ++i) {
    if (::waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    std::this_thread::sleep_for(10ms);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, &status, 0);
  return 1000;
}

bool says_fork(const Status& status) {
  const bool good = status.code() == Code::kUnsupported && status.text().find("fork") != std::string_view::npos;
  if (!good) std::printf("not an error about fork: %s\n", status.to_string().c_str());
  return good;
}

/// Every call of a forked child: the number of the first that does not say what is wrong; 0: all do.
int calls_in_child(Communicator& comm, Stream& stream) {
  std::vector<float> buffer(100, 1);
  std::vector<float> many(1000);
  int step = 0;
  const auto ok = [&](const Status& status) {
    ++step;
    return says_fork(status);
  };
  float* data = buffer.data();
  if (!ok(comm.all_reduce(std::span(buffer)))) return step;
  if (!ok(comm.all_gather(data, many.data(), 100, DataType::kFloat32))) return step;
  if (!ok(comm.barrier())) return step;
  if (!ok(comm.send(data, 10, DataType::kFloat32, 1 - comm.rank()))) return step;
  if (!ok(comm.all_reduce(data, data, 100, DataType::kFloat32, ReduceOp::kSum, stream))) return step;
  if (!ok(stream.synchronize())) return step;
  if (!ok(comm.async_error())) return step;
  if (!ok(comm.mem_alloc(4096).status())) return step;
  if (!ok(comm.split(0, 0).status())) return step;
  if (!ok(comm.shrink().status())) return step;
  if (!ok(comm.finalize())) return step;
  comm.abort("from a child");  // must not reach the parent's peers
  return 0;
}

/// Two ranks; rank 0 forks between two calls. `child` gets what the parent has and ends by itself.
void run_with_child(const std::function<void(std::optional<Communicator>&, std::shared_ptr<Engine>&, Stream&)>& child,
                    bool own_engine, bool busy_stream) {
  const auto codes = test::run_processes(2, [&](const RankContext& context) {
    std::shared_ptr<Engine> engine;
    if (own_engine) {
      auto made = Engine::create();
      if (!made.ok()) return 10;
      engine = *made;
    }
    auto made = Communicator::create(context.rank, 2, test::exchange_of(context), {}, engine);
    if (!made.ok()) return 11;
    std::optional<Communicator> comm(std::move(*made));
    Stream stream;
    std::uint64_t wrong = 0;
    for (std::uint64_t k = 0; k < 16; ++k)
      if (!test::mixed_call(*comm, k, &wrong, 5003, &stream).ok()) return 12;
    std::vector<float> buffer(100000, 1);
    if (busy_stream && context.rank == 0 &&
        !comm->all_reduce(buffer.data(), buffer.data(), buffer.size(), DataType::kFloat32, ReduceOp::kSum, stream).ok())
      return 13;
    if (context.rank == 0)
      if (const int code = in_child([&] { child(comm, engine, stream); }); code != 0) {
        std::printf("the child ended with %d\n", code);
        return 14;
      }
    if (busy_stream) {
      if (context.rank == 1 && !comm->all_reduce(std::span(buffer)).ok()) return 15;
      if (context.rank == 0 && !stream.synchronize().ok()) return 16;
      if (std::any_of(buffer.begin(), buffer.end(), [](float v) { return v != 2; })) return 17;
    }
    for (std::uint64_t k = 0; k < 64; ++k)
      if (const Status status = test::mixed_call(*comm, k, &wrong, 5003); !status.ok()) {
        std::printf("the parent: %s\n", status.to_string().c_str());
        return 18;
      }
    return wrong == 0 && comm->finalize().ok() ? 0 : 19;
  });
  EXPECT_EQ(codes, std::vector<int>(2, 0));
}

TEST(Fork, TheChildsCallsSaySoAndTheParentGoesOn) {
  for (const bool own_engine : {false, true})
    for (const bool busy : {false, true}) {
      SCOPED_TRACE(testing::Message() << "own engine " << own_engine << ", busy stream " << busy);
      run_with_child([](auto& comm, auto&, Stream& stream) { ::_exit(calls_in_child(*comm, stream)); }, own_engine,
                     busy);
    }
}

TEST(Fork, TheChildMayDestroyWhatItInherited) {
  for (const bool own_engine : {false, true})
    for (const bool busy : {false, true}) {
      SCOPED_TRACE(testing::Message() << "own engine " << own_engine << ", busy stream " << busy);
      run_with_child(
          [](auto& comm, auto& engine, Stream& stream) {
            stream = Stream();
            comm.reset();
            engine.reset();
            ::_exit(0);
          },
          own_engine, busy);
    }
}

TEST(Fork, TheChildMayExitTheOrdinaryWay) {
  for (const bool own_engine : {false, true})
    run_with_child([](auto&, auto&, Stream&) { std::exit(0); }, own_engine, true);
}

TEST(Fork, TheChildMayMakeCommunicatorsOfItsOwn) {
  run_with_child(
      [](auto&, auto&, Stream&) {
        auto alone = Communicator::create(0, 1, {});
        if (!alone.ok()) {
          std::printf("%s\n", alone.status().to_string().c_str());
          ::_exit(1);
        }
        std::vector<float> buffer(100, 3);
        const Status status = alone->all_reduce(std::span(buffer));
        ::_exit(status.ok() && buffer[99] == 3 ? 0 : 2);
      },
      false, false);
}

// ---- exit() without a destructor ----

TEST(Exit, WithoutDestroyingACommunicatorNeitherHangsNorCrashes) {
  for (const bool busy : {false, true}) {
    SCOPED_TRACE(busy ? "with a stream that waits for a peer" : "idle");
    const auto codes = test::run_processes(2, [&](const RankContext& context) {
      auto made = Communicator::create(context.rank, 2, test::exchange_of(context));
      if (!made.ok()) return 10;
      auto* comm = new Communicator(std::move(*made));
      auto* stream = new Stream();
      auto* buffer = new std::vector<float>(100000, 1);
      if (!comm->barrier().ok()) return 11;
      if (busy && context.rank == 0) {
        if (!comm->all_reduce(buffer->data(), buffer->data(), buffer->size(), DataType::kFloat32, ReduceOp::kSum,
                              *stream)
                 .ok())
          return 12;
        std::this_thread::sleep_for(20ms);
      }
      if (context.rank == 0) std::exit(0);
      // The peer learns of it.
      Status status;
      while (status.ok()) status = comm->barrier();
      if (status.code() != Code::kPeerLost && status.code() != Code::kMismatch) {
        std::printf("the peer: %s\n", status.to_string().c_str());
        return 13;
      }
      std::exit(0);
    });
    EXPECT_EQ(codes, std::vector<int>(2, 0));
  }
}

TEST(Exit, FromAnotherThreadWhileACallBlocksNeitherHangsNorCrashes) {
  const auto codes = test::run_processes(2, [](const RankContext& context) {
    auto made = Communicator::create(context.rank, 2, test::exchange_of(context));
    if (!made.ok()) return 10;
    auto* comm = new Communicator(std::move(*made));
    if (context.rank == 0) {
      std::thread([comm] { (void)comm->barrier(); }).detach();
      std::this_thread::sleep_for(50ms);
      std::exit(0);
    }
    (void)eventually([&] { return !comm->async_error().ok(); });
    return comm->async_error().code() == Code::kPeerLost ? 0 : 11;
  });
  EXPECT_EQ(codes, std::vector<int>(2, 0));
}

}  // namespace
}  // namespace hocket
