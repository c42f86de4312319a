// SPDX-License-Identifier: Apache-2.0
// core/explain.cpp: what users read of a communicator: how a call would run and why, whom it is connected with and what
// it took to make it.
#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/layout.hpp"
#include "base/status.hpp"
#include "core/communicator_state.hpp"
#include "core/operation.hpp"
#include "core/reduction.hpp"
#include "exec/reduce_scalar.hpp"

namespace hocket {
namespace {

/// "two_shot 12.3 us; ring 14.1; …": each algorithm that can be used, at its best, fastest first.
std::string predictions_text(std::vector<Candidate> all) {
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  std::vector<std::string_view> told;
  std::string text;
  for (const Candidate& one : all) {
    if (!one.why_not.empty() || std::find(told.begin(), told.end(), one.algorithm->name) != told.end()) continue;
    told.push_back(one.algorithm->name);
    text += format("{}{} {:.4g}{}", text.empty() ? "" : "; ", one.algorithm->name, one.seconds * 1e6,
                   text.empty() ? " us" : "");
  }
  return text + " (from the links, not measured)";
}

}  // namespace

std::string Communicator::explain(Collective collective, std::size_t count, DataType type, const Reduction& op) const {
  if (!state_) return "an empty communicator";
  const CommunicatorState& s = *state_;
  if (static_cast<int>(collective) >= kCollectiveCount || size_of(type) == 0) return "no such collective or data type";
  if (count > kMostElements / static_cast<std::uint64_t>(s.size)) return "no communicator has that many elements";
  std::string text;
  std::vector<Rejected> rejected;
  const bool may_be_symmetric = s.may_be_symmetric.load(std::memory_order_relaxed);
  const std::uint64_t bytes = count * size_of(type);
  if (const Status bad = check_reduction(op, type); !bad.ok()) return bad.to_string();
  const OperatorNeeds needs = needs_of(op.op(), op.user() != nullptr && op.user()->commutative == Commutative::kNo);
  const bool any_memory = s.world.one_process && collective != Collective::kBarrier && count != 0;
  const auto choice = choose(collective, bytes, type, any_memory, s.world, &rejected, needs);
  if (!choice.ok()) return choice.status().to_string();
  const Algorithm& a = *choice->algorithm;
  text +=
      format("{} of {} {}{} on {} ranks, {} host{}{}\n", to_string(collective), count, to_string(type),
             collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
                     collective == Collective::kReduce
                 ? format(" ({})", op.name())
                 : "",
             s.size, s.world.hosts, s.world.hosts == 1 ? "" : "s", s.world.crowded ? ", more ranks than cores" : "");
  if (s.size == 1) return text + "  nothing goes from rank to rank: input is copied to output, or stays where it is\n";
  text += format("  algorithm  {} ({})\n", a.name, a.source);
  text += format("  protocol   {}\n", to_string(choice->protocol));
  text += format("  lanes      {}, tile {} bytes, {} a round, {} slots of {} bytes\n", choice->lanes,
                 choice->tile_bytes, choice->tiles_per_round, s.world.slots, s.world.slot_bytes);
  const Tuning& tuning = s.world.tuning ? *s.world.tuning : default_tuning();
  text += format("  tuning     {}, digest {:016x}{}\n", tuning.name(), tuning.digest(),
                 choice->measured ? "" : "; no row for this: by rule");
  if (s.world.tuner)
    text += format("  tuner      {} version {}: {}\n", s.world.tuner->name, s.world.tuner->version,
                   choice->by_tuner ? "its choice" : "no opinion");
  if (s.world.layout)
    text += format("  layout     {}, digest {:016x}\n", s.world.layout->to_text(), s.world.layout_digest);
  // What was measured needs no prediction, and shared memory's rates depend on too much for a good one.
  if (!choice->measured)
    text += format("  predicted  {}\n", predictions_text(candidates(collective, bytes, any_memory, s.world, needs)));
  const int roundings = roundings_of(a, s.world);
  text += format("  roundings  {} of each element{}\n", roundings,
                 accumulates_wider(type) && roundings > 0 ? ", each from a 32-bit accumulator" : "");
  text += "  transport ";
  for (Rank r = 0; r < s.size; ++r) {
    if (r == s.rank) continue;
    const PeerView* const view = s.channels->find(r);
    if (view != nullptr) text += format(" {}:{}", r, view->endpoint->transport());
  }
  text += "\n";
  for (const Rejected& r : rejected) text += format("  not {}: {}\n", r.algorithm, r.reason);
  if (may_be_symmetric && !any_memory) {
    const auto direct = choose(collective, bytes, type, true, s.world, nullptr, needs);
    if (direct.ok() && direct->algorithm->zero_copy)
      text += format("  with mem_alloc buffers: {}\n", direct->algorithm->name);
  }
  return text;
}

std::string Communicator::describe() const {
  if (!state_) return "an empty communicator";
  const CommunicatorState& s = *state_;
  std::string text = format("rank {} of {}, communicator {:x}\n", s.rank, s.size, s.id);
  std::int64_t total = 0;
  for (const Phase& phase : s.phases) total += phase.ns;
  text += format("  made in {:.2f} ms:", static_cast<double>(total) / 1e6);
  for (const Phase& phase : s.phases) text += format(" {} {:.2f};", phase.name, static_cast<double>(phase.ns) / 1e6);
  text += "\n";
  if (!s.meeting.empty()) text += format("  met by a unique id: {}\n", s.meeting);
  for (Rank r = 0; r < s.size; ++r) {
    const PeerView* const view = s.channels->find(r);
    if (view == nullptr) continue;
    text += format("  {}{}: {}", s.name_of(r), r == s.rank ? " (this one)" : "", view->endpoint->transport());
    if (const auto tried = s.trials.find(r); tried != s.trials.end())
      for (const TransportTrial& trial : tried->second)
        if (!trial.reason.empty()) text += format(" (not {}: {})", trial.transport, trial.reason);
    text += "\n";
  }
  return s.size > kEagerRanks ? text : text + s.domains.to_text();
}

}  // namespace hocket
