// SPDX-License-Identifier: Apache-2.0
// A rank disappears while calls are queued on a stream; the others learn who, and go on without it:
//   hocket run --ranks 4 build/dev/examples/04_recover
// Prints, on each rank but the last, why the call failed, and "rank 1 of 3 goes on: 6".
#include <hocket/hocket.hpp>

#include <cstdlib>
#include <iostream>
#include <span>
#include <vector>

using hocket::Communicator;
using hocket::DataType;
using hocket::ReduceOp;

int fail(const hocket::Status& status) {
  std::cerr << status.to_string() << "\n";
  return 1;
}

int main() {
  auto made = Communicator::from_environment();
  if (!made.ok()) return fail(made.status());
  Communicator communicator = std::move(*made);

  hocket::Stream stream;
  std::vector<float> values(1000, static_cast<float>(communicator.rank() + 1)), sums(1000);
  const auto queue = [&] {
    return communicator.all_reduce(values.data(), sums.data(), values.size(), DataType::kFloat32, ReduceOp::kSum,
                                   stream);
  };
  if (hocket::Status status = queue(); !status.ok()) return fail(status);
  if (hocket::Status status = stream.synchronize(); !status.ok()) return fail(status);

  if (communicator.rank() == communicator.size() - 1) std::_Exit(0);  // as if it had crashed: nobody is told
  if (hocket::Status status = queue(); !status.ok()) return fail(status);
  const hocket::Status failed = stream.synchronize();
  if (failed.code() != hocket::Code::kPeerLost) return fail(failed);
  std::cout << "rank " + std::to_string(communicator.rank()) + ": " + failed.to_string() + "\n";
  if (communicator.async_error().ok()) return 1;  // it shows there, too, for whoever polls

  auto survivors = communicator.shrink();
  if (!survivors.ok()) return fail(survivors.status());
  if (hocket::Status status = survivors->all_reduce(std::span(values)); !status.ok()) return fail(status);
  std::cout << "rank " + std::to_string(survivors->rank()) + " of " + std::to_string(survivors->size()) +
                   " goes on: " + std::to_string(static_cast<int>(values[0])) + "\n";
  return values[0] == 6 ? 0 : 1;  // 1 + 2 + 3
}
