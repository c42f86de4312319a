// SPDX-License-Identifier: Apache-2.0
// Three threads of one process are ranks; their exchange is any all-gather between threads:
// build/dev/examples/02_threads_as_ranks Prints "rank 2 has 0 1 2" and the like, once for each rank.
#include <hocket/hocket.hpp>

#include <barrier>
#include <cstring>
#include <iostream>
#include <span>
#include <thread>
#include <vector>

constexpr int kRanks = 3;
std::vector<std::byte> everybody(1 << 20);  // what is being exchanged
std::barrier meet(kRanks);

// Each writes its part, then reads all; the second meeting keeps the next exchange from overwriting this one.
hocket::Status exchange(int rank, std::span<const std::byte> mine, std::span<std::byte> all) {
  if (all.size() > everybody.size()) return {hocket::Code::kOutOfMemory, "a larger buffer is needed"};
  std::memcpy(everybody.data() + mine.size() * static_cast<std::size_t>(rank), mine.data(), mine.size());
  meet.arrive_and_wait();
  std::memcpy(all.data(), everybody.data(), all.size());
  meet.arrive_and_wait();
  return {};
}

bool run(int rank) {
  auto communicator =
      hocket::Communicator::create(rank, kRanks, [rank](auto mine, auto all) { return exchange(rank, mine, all); });
  if (!communicator.ok()) {
    std::cerr << communicator.status().to_string() << "\n";
    return false;
  }
  const std::int32_t mine = rank;
  std::int32_t all[kRanks] = {};
  const hocket::Status status = communicator->all_gather(std::span(&mine, 1), std::span<std::int32_t>(all));
  if (!status.ok()) {
    std::cerr << status.to_string() << "\n";
    return false;
  }
  std::string line = "rank " + std::to_string(rank) + " has";
  for (const std::int32_t value : all) line += " " + std::to_string(value);
  std::cout << line + "\n";
  return all[0] == 0 && all[1] == 1 && all[2] == 2;
}

int main() {
  bool good[kRanks] = {};
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) threads.emplace_back([&, rank] { good[rank] = run(rank); });
  }
  return good[0] && good[1] && good[2] ? 0 : 1;
}
