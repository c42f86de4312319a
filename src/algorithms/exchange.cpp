// SPDX-License-Identifier: Apache-2.0
// exchange.cpp: a group of sends and receives as one sparse pairwise exchange, built from what one rank knows.
//
// For k = 1 .. n-1: send to r+k and receive from r-k, message by message and tile by tile in turn; absent ones are left
// out. Each rank moves its own bytes once. Messages of one pair keep their order, so the i-th send to a peer meets the
// peer's i-th receive. Messages to oneself are local Moves.
// Free of deadlock whatever ranks take part with whatever counts: give every step the key (k, number of the message in
// its pair, tile, send before receive). A rank's steps follow each other by key; the sender of a message and its
// receiver have the same k, number and tile; so every wait is for a step with a smaller key.
// The side by side form gives each peer and direction a lane: then nothing waits but for its own counterpart, also one
// that is no group. It is for executors whose lanes take turns on a thread.
// With all pairs present it is the dense form of all-to-all-v. Source: Thakur, Rabenseifner and Gropp, Optimization of
// collective communication operations in MPICH, IJHPCA 2005, for the order of pairs.
// Next stop: exec/executor.hpp runs the plan.
#include "algorithms/exchange.hpp"

#include <algorithm>
#include <numeric>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

/// Entries by the peer's distance, in their order.
std::vector<std::vector<std::int32_t>> by_distance(std::span<const Rank> peers, int world, Rank rank, int sign) {
  std::vector<std::vector<std::int32_t>> entries(static_cast<std::size_t>(world));
  for (std::size_t e = 0; e < peers.size(); ++e)
    entries[static_cast<std::size_t>((sign * (peers[e] - rank) + world) % world)].push_back(
        static_cast<std::int32_t>(e));
  return entries;
}

Plan build(int n, Rank r, std::span<const Rank> sends, std::span<const Rank> receives, int lanes) {
  PlanBuilder b(Collective::kExchange, "pairwise", n, r);
  const CutId row = b.cut(CutKind::kSendRow, std::max(static_cast<int>(sends.size()), 1));
  const CutId column = b.cut(CutKind::kReceiveColumn, std::max(static_cast<int>(receives.size()), 1));
  const auto to = by_distance(sends, n, r, 1), from = by_distance(receives, n, r, -1);
  for (int lane = 0; lane < lanes; ++lane)
    b.lane(lane, lanes, [&] {
      for (std::size_t e = 0; e < to[0].size(); ++e) {
        const Index source = constant(to[0][e]), destination = constant(from[0][e]);
        const Extent all = b.chunk(row, source);
        b.rounds({all}, [&] { b.move(all, {b.input(row, source)}, {b.output(column, destination)}); });
      }
      for (int k = 1; k < n; ++k) {
        const auto& out = to[static_cast<std::size_t>(k)];
        const auto& in = from[static_cast<std::size_t>(k)];
        const Link next = link(lane, (r + k) % n), previous = link(lane, (r - k + n) % n);
        for (std::size_t m = 0; m < std::max(out.size(), in.size()); ++m) {
          const bool sends_one = m < out.size(), receives_one = m < in.size();
          const Index s = constant(sends_one ? out[m] : 0), d = constant(receives_one ? in[m] : 0);
          const auto body = [&] {
            if (sends_one) b.send(next, b.chunk(row, s), b.input(row, s));
            if (receives_one) b.recv(previous, b.chunk(column, d), {b.output(column, d)});
          };
          if (sends_one && receives_one) {
            b.rounds({b.chunk(row, s), b.chunk(column, d)}, body);
          } else {
            b.rounds({sends_one ? b.chunk(row, s) : b.chunk(column, d)}, body);
          }
        }
      }
    });
  return b.finish();
}

Plan build_side_by_side(int n, Rank r, std::span<const Rank> sends, std::span<const Rank> receives) {
  PlanBuilder b(Collective::kExchange, "side_by_side", n, r);
  const CutId row = b.cut(CutKind::kSendRow, std::max(static_cast<int>(sends.size()), 1));
  const CutId column = b.cut(CutKind::kReceiveColumn, std::max(static_cast<int>(receives.size()), 1));
  const auto to = by_distance(sends, n, r, 1), from = by_distance(receives, n, r, -1);
  if (!to[0].empty())
    b.lane(0, 1, [&] {
      for (std::size_t e = 0; e < to[0].size(); ++e) {
        const Index source = constant(to[0][e]), destination = constant(from[0][e]);
        const Extent all = b.chunk(row, source);
        b.rounds({all}, [&] { b.move(all, {b.input(row, source)}, {b.output(column, destination)}); });
      }
    });
  for (int k = 1; k < n; ++k) {
    const auto& out = to[static_cast<std::size_t>(k)];
    const auto& in = from[static_cast<std::size_t>(k)];
    if (!out.empty())
      b.lane(0, 1, [&] {
        for (const std::int32_t e : out) {
          const Extent all = b.chunk(row, constant(e));
          b.rounds({all}, [&] { b.send(link(0, (r + k) % n), all, b.input(row, constant(e))); });
        }
      });
    if (!in.empty())
      b.lane(0, 1, [&] {
        for (const std::int32_t e : in) {
          const Extent all = b.chunk(column, constant(e));
          b.rounds({all}, [&] { b.recv(link(0, (r - k + n) % n), all, {b.output(column, constant(e))}); });
        }
      });
  }
  return b.finish();
}

}  // namespace

Result<Plan> exchange_plan(int world, Rank rank, std::span<const Rank> sends, std::span<const Rank> receives, int lanes,
                           ExchangeForm form) {
  if (world < 1 || rank < 0 || rank >= world || lanes < 1)
    return error(Code::kInvalidArgument, "an exchange of rank {} of {} in {} lanes", rank, world, lanes);
  if (sends.empty() && receives.empty())
    return error(Code::kInvalidArgument, "an exchange without a send or a receive");
  if (sends.size() > kMostMessages || receives.size() > kMostMessages)
    return error(Code::kUnsupported, "a group of {} sends and {} receives: one rank may have {} of each", sends.size(),
                 receives.size(), kMostMessages);
  for (const auto list : {sends, receives})
    for (const Rank peer : list)
      if (peer < 0 || peer >= world)
        return error(Code::kInvalidArgument, "rank {} of a communicator of {}", peer, world);
  const auto out = std::count(sends.begin(), sends.end(), rank),
             in = std::count(receives.begin(), receives.end(), rank);
  if (out != in)
    return error(Code::kInvalidArgument, "rank {} sends {} messages to itself in this group, but receives {}", rank,
                 out, in);
  return form == ExchangeForm::kSideBySide ? build_side_by_side(world, rank, sends, receives)
                                           : build(world, rank, sends, receives, lanes);
}

Plan dense_exchange(const PlanArgs& args) {
  std::vector<Rank> everybody(static_cast<std::size_t>(args.world));
  std::iota(everybody.begin(), everybody.end(), 0);
  return build(args.world, args.rank, everybody, everybody, args.lanes);
}

}  // namespace hocket
