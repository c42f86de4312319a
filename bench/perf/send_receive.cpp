// SPDX-License-Identifier: Apache-2.0
// perf/send_receive.cpp: each rank sends to the next and receives from the one before.
#include <cstring>

#include "bench/perf/collective.hpp"

namespace hocket::perf {
namespace {

double bus_factor(int) {
  return 1;
}

Status call(const Call& c) {
  const int n = c.communicator.size();
  const Rank me = c.communicator.rank(), to = (me + 1) % n, from = (me + n - 1) % n;
  if (n == 1) {
    // A rank sends itself no messages; what one would do is a copy. The runner says so.
    if (c.count > 0) std::memcpy(c.output, c.input, c.count * size_of(c.type));
    return {};
  }
  // A send returns when it was taken, so someone has to receive first: the odd ones.
  const auto send = [&] {
    return c.stream ? c.communicator.send(c.input, c.count, c.type, to, *c.stream)
                    : c.communicator.send(c.input, c.count, c.type, to);
  };
  const auto receive = [&] {
    return c.stream ? c.communicator.receive(c.output, c.count, c.type, from, *c.stream)
                    : c.communicator.receive(c.output, c.count, c.type, from);
  };
  if (Status first = me % 2 == 1 ? receive() : send(); !first.ok()) return first;
  return me % 2 == 1 ? send() : receive();
}

std::vector<Expected> expected(int n, Rank me, Rank, std::size_t count) {
  return {{0, count, (me + n - 1) % n, 0}};
}

}  // namespace

const PerfCollective kSendReceivePerf = {
    .name = "sendrecv", .collective = Collective::kSend, .bus_factor = bus_factor, .call = call, .expected = expected};

}  // namespace hocket::perf
