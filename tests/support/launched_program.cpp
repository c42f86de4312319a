// SPDX-License-Identifier: Apache-2.0
// launched_program.cpp: what every launcher starts in tests. Ranks meet, reduce, broadcast, and each says the same line
// but for its own number.
#include <hocket/hocket.hpp>

#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

int main() {
  auto comm = hocket::Communicator::from_environment();
  if (!comm.ok()) {
    std::fprintf(stderr, "launched_program: %s\n", comm.status().to_string().c_str());
    return 1;
  }
  const int rank = comm->rank(), size = comm->size();
  std::vector<std::int64_t> sum(1001, rank + 1), word(17, rank == size - 1 ? 4711 : 0);
  hocket::Status status = comm->all_reduce(std::span(sum));
  if (status.ok()) status = comm->broadcast(std::span(word), size - 1);
  // A second one, as programs with several libraries make.
  auto again = status.ok() ? hocket::Communicator::from_environment() : hocket::Result<hocket::Communicator>(status);
  if (again.ok()) status = again->barrier();
  if (!status.ok() || !again.ok()) {
    std::fprintf(stderr, "launched_program: rank %d: %s\n", rank,
                 (again.ok() ? status : again.status()).to_string().c_str());
    return 1;
  }
  for (const std::int64_t value : sum)
    if (value != std::int64_t{size} * (size + 1) / 2) return 2;
  for (const std::int64_t value : word)
    if (value != 4711) return 3;
  std::printf("rank %d of %d: sum %lld, word %lld\n", rank, size, static_cast<long long>(sum.back()),
              static_cast<long long>(word.back()));
  return 0;
}
