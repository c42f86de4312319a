// SPDX-License-Identifier: Apache-2.0
// A ring exchange in which every rank sends and receives at once, with a collective of another communicator beside it:
//   hocket run --ranks 4 build/dev/examples/07_groups
// Prints "rank 3 of 4: got 2, the pair has 5" and the like, once for each rank.
#include <hocket/hocket.hpp>

#include <iostream>
#include <span>

using hocket::Communicator;

int fail(const hocket::Status& status) {
  std::cerr << status.to_string() << "\n";
  return 1;
}

int main() {
  auto everybody = Communicator::from_environment();
  if (!everybody.ok()) return fail(everybody.status());
  const int rank = everybody->rank(), size = everybody->size();
  auto pair = everybody->split(rank / 2, rank);
  if (!pair.ok()) return fail(pair.status());

  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  const std::int32_t mine = rank;
  std::int32_t theirs = -1, sum = rank;

  // Outside of a group a send waits until it is received, so a ring of sends would wait for ever. In a group calls only
  // say what is to be done; end() does all of it at once.
  hocket::Group group;
  if (hocket::Status status = everybody->send(std::span(&mine, 1), next); !status.ok()) return fail(status);
  if (hocket::Status status = everybody->receive(std::span(&theirs, 1), before); !status.ok()) return fail(status);
  if (hocket::Status status = pair->all_reduce(std::span(&sum, 1)); !status.ok()) return fail(status);
  if (hocket::Status status = group.end(); !status.ok()) return fail(status);

  std::cout << "rank " + std::to_string(rank) + " of " + std::to_string(size) + ": got " + std::to_string(theirs) +
                   ", the pair has " + std::to_string(sum) + "\n";
  return theirs == before ? 0 : 1;
}
