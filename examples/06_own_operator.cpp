// SPDX-License-Identifier: Apache-2.0
// Reductions of your own: a sum whose addends are scaled on the way, and an operator that hocket does not know.
//   hocket run --ranks 4 build/dev/examples/06_own_operator
// Prints "rank 0: mean 2.5, bits 15" and the like, once for each rank.
#include <hocket/hocket.hpp>

#include <iostream>
#include <span>
#include <sstream>

int main() {
  auto communicator = hocket::Communicator::from_environment();
  if (!communicator.ok()) {
    std::cerr << communicator.status().to_string() << "\n";
    return 1;
  }
  const int n = communicator->size(), rank = communicator->rank();
  float mean = static_cast<float>(rank + 1);
  hocket::Status status = communicator->all_reduce(std::span(&mean, 1), hocket::Reduction::premultiplied(1.0 / n));

  std::int32_t bits = 1 << rank;
  const auto either = hocket::Reduction::user<std::int32_t>(
      "bit or", [](std::int32_t lower, std::int32_t higher) { return lower | higher; });
  if (status.ok()) status = communicator->all_reduce(std::span(&bits, 1), either);
  if (!status.ok()) {
    std::cerr << status.to_string() << "\n";
    return 1;
  }
  std::ostringstream line;
  line << "rank " << rank << ": mean " << mean << ", bits " << bits << "\n";
  std::cout << line.str();
  return bits == (1 << n) - 1 ? 0 : 1;
}
