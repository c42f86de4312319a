// SPDX-License-Identifier: Apache-2.0
#include "checker/judge.hpp"

#include <algorithm>

#include "algorithms/registry.hpp"
#include "checker/call_layout.hpp"

namespace hocket::check {

void Judge::reset() {
  sums_.assign(run_.calls.size(), {});
  trees_.assign(run_.calls.size(), {});
  equal_bits_ = ordered_ = true;
}

void Judge::check_element(int rank, std::uint64_t e, std::uint64_t expected) {
  const RankState& state = run_.ranks[static_cast<std::size_t>(rank)];
  const std::uint64_t got = state.output[e].value.sum;
  if (got == expected || run_.failed) return;
  run_.fail(format("call {} ({} {}): element {} of the output of rank {} is wrong: {}", state.call,
                   to_string(run_.call_of(rank).plans->plan(rank).header.collective),
                   run_.call_of(rank).plans->plan(rank).algorithm(), e, rank, diagnose(rank, got, expected)));
}

// What a wrong sum is made of, as far as one guess goes.
std::string Judge::diagnose(int rank, std::uint64_t got, std::uint64_t expected) {
  const RankState& state = run_.ranks[static_cast<std::size_t>(rank)];
  // Kinds that reduce expect a finished sum; the inverse of `finished` recovers the plain one.
  const Collective collective = run_.call_of(rank).plans->plan(rank).header.collective;
  const bool reduction = reduces(collective);
  if (finished(got) == expected) return "all contributions are there, but no Move with `finish` made it";
  if (finished(expected) == got)
    return reduction ? "it was finished twice" : "it was finished, which only a reduction is";
  std::uint64_t inverse = kFinishFactor;
  for (int k = 0; k < 6; ++k) inverse *= 2 - kFinishFactor * inverse;
  const auto plain = [&](std::uint64_t sum) { return reduction ? (sum - kFinishOffset) * inverse : sum; };
  std::uint64_t longest = 0;
  for (const RankState& r : run_.ranks) longest = std::max({longest, r.input_length, r.output_length});
  for (int c = state.call; c >= 0; --c)
    for (int q = 0; q < 2 * run_.n; ++q)
      for (std::uint64_t e = 0; e < longest; ++e) {
        const std::uint64_t t = run_.input_token(q, e, c);
        const std::string who = q < run_.n ? format("element {} of the input of rank {}", e, q)
                                           : format("what the caller of rank {} had in its memory", q - run_.n);
        const std::string when = c == state.call ? "" : format(" in call {}", c);
        if (got == t) return format("it is {}{}{}", who, when, q < run_.n ? "" : ", so nobody wrote it");
        if (plain(expected) - plain(got) == t) return format("{} is missing{}", who, when);
        if (plain(got) - plain(expected) == t) return format("{}{} is in it once too often", who, when);
      }
  return "its contributions are not the expected ones";
}

void Judge::check(int rank) {
  RankState& state = run_.ranks[static_cast<std::size_t>(rank)];
  const CheckCall& call = run_.call_of(rank);
  const Plan& plan = call.plans->plan(rank);
  const int k = state.call;
  const std::uint64_t length = state.output_length;
  const int n = run_.n;
  const auto size = [&](int r) {
    return call.uneven != nullptr && !call.uneven->ranks.empty() ? call.uneven->ranks[static_cast<std::size_t>(r)]
                                                                 : call.count;
  };
  // What one Move of all inputs in rank order makes of element e.
  const auto in_order = [&](std::uint64_t e) {
    std::uint64_t tree = origin(run_.input_token(0, e, k)).tree;
    for (int r = 1; r < n; ++r) tree = reduced(tree, origin(run_.input_token(r, e, k)).tree);
    return finished_tree(n > 1 ? moved_tree(tree) : tree);
  };
  const std::uint64_t gap = call.uneven == nullptr ? 0 : call.uneven->gap;
  switch (plan.header.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce: {
      std::vector<std::uint64_t>& sum = sums_[static_cast<std::size_t>(k)];
      std::vector<std::uint64_t>& tree = trees_[static_cast<std::size_t>(k)];
      const bool first = length != 0 && sum.empty();
      if (first) {
        sum.resize(length);
        tree.resize(length);
        for (std::uint64_t e = 0; e < length; ++e) {
          for (int r = 0; r < n; ++r) sum[e] += run_.input_token(r, e, k);
          sum[e] = finished(sum[e]);
          tree[e] = state.output[e].value.tree;
          ordered_ = ordered_ && tree[e] == in_order(e);
        }
      }
      for (std::uint64_t e = 0; e < length; ++e) {
        check_element(rank, e, sum[e]);
        if (tree[e] != state.output[e].value.tree) equal_bits_ = ordered_ = false;
      }
      break;
    }
    case Collective::kReduceScatter:
    case Collective::kReduceScatterV: {
      const std::uint64_t offset = own_offset(state.shape, rank);
      for (std::uint64_t e = 0; e < length; ++e) {
        std::uint64_t sum = 0;
        for (int r = 0; r < n; ++r) sum += run_.input_token(r, offset + e, k);
        check_element(rank, e, finished(sum));
        ordered_ = ordered_ && state.output[e].value.tree == in_order(offset + e);
      }
      break;
    }
    case Collective::kGather:
      if (length == 0) break;
      [[fallthrough]];
    case Collective::kAllGather:
    case Collective::kAllGatherV:
      for (int r = 0; r < n; ++r) {
        const std::uint64_t at = own_offset(state.shape, r);
        for (std::uint64_t e = 0; e < size(r); ++e) check_element(rank, at + e, run_.input_token(r, e, k));
      }
      break;
    case Collective::kScatter: {
      const int root = n == 1 ? 0 : plan.header.root;
      const std::uint64_t offset = own_offset(state.shape, rank);
      for (std::uint64_t e = 0; e < length; ++e) check_element(rank, e, run_.input_token(root, offset + e, k));
      break;
    }
    case Collective::kAllToAll:
    case Collective::kAllToAllV:
    case Collective::kExchange: {
      const bool lists = call.uneven != nullptr && !call.uneven->sends.empty();
      const std::size_t me = static_cast<std::size_t>(rank);
      const std::size_t chunks = lists ? call.uneven->receives[me].size() : static_cast<std::size_t>(n);
      std::vector<std::size_t> met(static_cast<std::size_t>(n));
      for (std::size_t c = 0; c < chunks; ++c) {
        // Chunk c of mine is chunk `theirs` of rank `from`: of a list, the next one that it has for me.
        const int from = lists ? call.uneven->receives[me][c].peer : static_cast<int>(c);
        std::size_t theirs = me;
        if (lists) {
          const std::vector<Message>& sent = call.uneven->sends[static_cast<std::size_t>(from)];
          theirs = met[static_cast<std::size_t>(from)];
          while (theirs < sent.size() && sent[theirs].peer != rank) ++theirs;
          met[static_cast<std::size_t>(from)] = theirs + 1;
        }
        const std::vector<std::uint64_t> row = pair_counts(call, from, true);
        const std::uint64_t offset = row.empty() ? theirs * call.count : layout_of(row, gap)[theirs];
        const std::uint64_t count = row.empty() ? call.count : row[theirs];
        const std::uint64_t at = state.offsets[2].empty() ? c * call.count : state.offsets[2][c];
        for (std::uint64_t e = 0; e < count; ++e) check_element(rank, at + e, run_.input_token(from, offset + e, k));
      }
      break;
    }
    case Collective::kBroadcast: {
      const int root = n == 1 ? 0 : plan.header.root;
      for (std::uint64_t e = 0; e < length; ++e) check_element(rank, e, run_.input_token(root, e, k));
      break;
    }
    case Collective::kReceive:
      for (std::uint64_t e = 0; e < length; ++e) check_element(rank, e, run_.input_token(plan.header.root, e, k));
      break;
    case Collective::kBarrier:
      for (int r = 0; r < n && !plan.lanes.empty(); ++r)
        if (run_.clock(rank * run_.lanes_per_rank)[r * run_.lanes_per_rank] <
            run_.ranks[static_cast<std::size_t>(r)].entry[k])
          run_.fail(format("call {} (barrier {}): rank {} leaves without knowing that rank {} has entered", k,
                           plan.algorithm(), rank, r));
      break;
    case Collective::kSend: break;
  }
  if (gap != 0 && !call.in_place && !run_.failed) check_gaps(rank);
}

// What lies between the output's chunks is still the caller's.
void Judge::check_gaps(int rank) {
  const RankState& state = run_.ranks[static_cast<std::size_t>(rank)];
  const Collective collective = run_.call_of(rank).plans->plan(rank).header.collective;
  const int kind = collective == Collective::kAllGatherV || collective == Collective::kAllGather ? 0
                   : collective == Collective::kAllToAllV || collective == Collective::kExchange ? 2
                                                                                                 : -1;
  if (kind < 0 || state.counts[kind].empty()) return;
  std::vector<bool> chunk(state.output_length);
  for (std::size_t c = 0; c < state.counts[kind].size(); ++c)
    for (std::uint64_t e = 0; e < state.counts[kind][c]; ++e) chunk[state.offsets[kind][c] + e] = true;
  for (std::uint64_t e = 0; e < state.output_length; ++e)
    if (!chunk[e]) check_element(rank, e, run_.input_token(rank + run_.n, e, state.call));
}

}  // namespace hocket::check
