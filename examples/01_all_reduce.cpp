// SPDX-License-Identifier: Apache-2.0
// Four ranks add up their vectors: hocket run --ranks 4 build/dev/examples/01_all_reduce
#include <hocket/hocket.hpp>

#include <iostream>
#include <span>
#include <vector>

int main() {
  auto communicator = hocket::Communicator::from_environment();  // who am I, who are the others
  if (!communicator.ok()) {
    std::cerr << communicator.status().to_string() << "\n";
    return 1;
  }
  std::vector<float> values(1 << 20, static_cast<float>(communicator->rank() + 1));

  hocket::Status status = communicator->all_reduce(std::span(values), hocket::ReduceOp::kSum);  // in place
  if (!status.ok()) {
    std::cerr << status.to_string() << "\n";
    return 1;
  }
  const int n = communicator->size();
  std::cout << "rank " + std::to_string(communicator->rank()) + " of " + std::to_string(n) + ": every element is " +
                   std::to_string(static_cast<int>(values.back())) + "\n";
  return values.front() == n * (n + 1) / 2 ? 0 : 1;
}
