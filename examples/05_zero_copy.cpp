// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks reach: calls on it move data straight from buffer to buffer, with no staging in between.
//   hocket run --ranks 2 build/dev/examples/05_zero_copy
// Prints "rank 0: 3 everywhere", and on rank 0 what such a call does.
#include <hocket/hocket.hpp>

#include <algorithm>
#include <iostream>
#include <span>

int fail(const hocket::Status& status) {
  std::cerr << status.to_string() << "\n";
  return 1;
}

int main() {
  auto communicator = hocket::Communicator::from_environment();
  if (!communicator.ok()) return fail(communicator.status());
  constexpr std::size_t kCount = 1 << 20;
  auto memory = communicator->mem_alloc(2 * kCount * sizeof(float));  // all ranks together, each gets its own
  if (!memory.ok()) return fail(memory.status());
  float* const input = static_cast<float*>(*memory);
  float* const output = input + kCount;
  std::fill_n(input, kCount, static_cast<float>(communicator->rank() + 1));

  hocket::Status status = communicator->all_reduce(std::span<const float>(input, kCount), std::span(output, kCount));
  if (!status.ok()) return fail(status);
  const int n = communicator->size();
  const float expected = static_cast<float>(n * (n + 1) / 2);
  if (std::count(output, output + kCount, expected) != kCount) return 1;
  std::cout << "rank " + std::to_string(communicator->rank()) + ": " + std::to_string(static_cast<int>(expected)) +
                   " everywhere\n";
  if (communicator->rank() == 0)
    std::cout << communicator->explain(hocket::Collective::kAllReduce, kCount, hocket::DataType::kFloat32);
  status = communicator->mem_free(*memory);
  return status.ok() ? 0 : fail(status);
}
