// SPDX-License-Identifier: Apache-2.0
// What a user's program is: the public header, a communicator, a collective. Prints "rank R of N: S".
#include <hocket/hocket.hpp>

#include <cstdio>
#include <span>
#include <vector>

int main() {
  auto communicator = hocket::Communicator::from_environment();
  if (!communicator.ok()) {
    std::fprintf(stderr, "%s\n", communicator.status().to_string().c_str());
    return 1;
  }
  std::vector<float> values(1000, static_cast<float>(communicator->rank() + 1));
  const hocket::Status status = communicator->all_reduce(std::span(values));
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return 1;
  }
  std::printf("rank %d of %d: %g\n", communicator->rank(), communicator->size(), static_cast<double>(values.back()));
  return 0;
}
