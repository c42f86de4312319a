// SPDX-License-Identifier: Apache-2.0
// A program that has its own say in which algorithm a call uses: large reductions go around a ring, all others as
// hocket would do them:
//   hocket run --ranks 4 build/dev/examples/08_own_tuner
// Prints "rank 3 of 4: sum 10, large by ring, small by one_shot" and the like, once for each rank.
#include <hocket/hocket.hpp>

#include <iostream>
#include <memory>
#include <span>
#include <vector>

using hocket::Communicator;
using hocket::TunerCall;
using hocket::TunerChoice;

int fail(const hocket::Status& status) {
  std::cerr << status.to_string() << "\n";
  return 1;
}

/// Depends on the call and on nothing else, so that all ranks come to the same.
std::optional<TunerChoice> prefer_rings(const TunerCall& call) {
  if (call.collective != hocket::Collective::kAllReduce || call.bytes < (1 << 20)) return std::nullopt;
  return TunerChoice{"ring", "bulk", 0};
}

/// The word after "algorithm" of what explain() prints.
std::string algorithm_of(const Communicator& comm, std::size_t count) {
  const std::string text = comm.explain(hocket::Collective::kAllReduce, count, hocket::DataType::kFloat32);
  const std::size_t begin = text.find("algorithm  ") + 11;
  return text.substr(begin, text.find(' ', begin) - begin);
}

int main() {
  auto settings = hocket::Settings::from_environment();
  if (!settings.ok()) return fail(settings.status());
  settings->tuner = std::make_shared<const hocket::Tuner>(hocket::Tuner{"prefer rings", 1, prefer_rings});
  auto comm = Communicator::from_environment(*settings);
  if (!comm.ok()) return fail(comm.status());

  std::vector<float> data(1 << 20, static_cast<float>(comm->rank() + 1));
  if (hocket::Status status = comm->all_reduce(std::span(data)); !status.ok()) return fail(status);
  std::cout << "rank " + std::to_string(comm->rank()) + " of " + std::to_string(comm->size()) + ": sum " +
                   std::to_string(static_cast<int>(data[0])) + ", large by " + algorithm_of(*comm, data.size()) +
                   ", small by " + algorithm_of(*comm, 2) + "\n";
  return 0;
}
