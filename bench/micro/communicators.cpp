// SPDX-License-Identifier: Apache-2.0
// communicators.cpp: what many communicators over the same ranks cost: time, memory, descriptors, threads, idle CPU.
//
//   hocket run -n 8 -- communicators [COUNT]     (rank 0 prints; HOCKET_TRANSPORT=tcp for the other wire)
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/hocket.hpp"

namespace {

void check(const hocket::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::exit(1);
}

/// KiB of this process; shared pages count in parts (Pss).
long memory_kib() {
  constexpr std::string_view kKey = "Pss:";
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kKey)) return std::atol(line.c_str() + kKey.size());
  return -1;
}

long entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

double cpu_seconds() {
  timespec t;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 64;
  auto world = hocket::Communicator::from_environment();
  check(world.status());
  constexpr std::size_t kSmall = 16384, kLarge = std::size_t{4} << 20;
  const std::vector<float> in(kLarge, 1);
  std::vector<float> out(kLarge);
  const auto reduce = [&](hocket::Communicator& comm, std::size_t elements) {
    check(comm.all_reduce(in.data(), out.data(), elements, hocket::DataType::kFloat32, hocket::ReduceOp::kSum));
  };
  const auto show = [&](const char* when) {
    check(world->barrier());
    if (world->rank() == 0)
      std::printf("%-34s %8ld KiB  %3ld descriptors  %2ld threads\n", when, memory_kib(), entries("/proc/self/fd"),
                  entries("/proc/self/task"));
    check(world->barrier());
  };

  reduce(*world, kLarge);
  show("one communicator");
  std::vector<hocket::Communicator> all;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) {
    auto copy = world->duplicate();
    check(copy.status());
    all.push_back(std::move(*copy));
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  show("all made");
  for (auto& comm : all) reduce(comm, kSmall);
  show("each did an all-reduce of 64 KiB");
  for (auto& comm : all) reduce(comm, kLarge);
  show("each did one of 16 MiB");
  const double before = cpu_seconds();
  ::sleep(3);
  const double idle = cpu_seconds() - before;
  all.clear();
  check(world->barrier());
  ::sleep(1);
  show("all ended");
  if (world->rank() == 0)
    std::printf("%d communicators made in %.3f s; %.4f s of CPU in 3 s idle\n", count, seconds, idle);
}
