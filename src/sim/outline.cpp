// SPDX-License-Identifier: Apache-2.0
#include "sim/outline.hpp"

#include <algorithm>
#include <map>

#include "base/status.hpp"

namespace hocket::sim {
namespace {

constexpr std::size_t kMostEnds = std::size_t{40} << 20;

class Walk {
 public:
  explicit Walk(const Plan& plan) : plan_(plan), view_(plan.view()) {}

  Outline run() {
    hash(static_cast<std::uint64_t>(plan_.header.pieces));
    for (const LaneProgram& lane : plan_.lanes) {
      hash(static_cast<std::uint64_t>(lane.part) << 32 | static_cast<std::uint64_t>(lane.parts));
      steps_ = plan_.steps.data() + lane.first;
      block(0, lane.count);
    }
    return std::move(outline_);
  }

 private:
  void hash(std::uint64_t value) { outline_.structure = mixed(outline_.structure, value); }

  static bool depends(const PeerIndex& peer, int variable) {
    return (variable == 0 ? peer.index.s0 : peer.index.s1) != 0;
  }
  /// Whether a repeat's passes differ in whom they talk to.
  bool varies(std::uint32_t first, std::uint32_t end, int variable) const {
    for (std::uint32_t at = first; at < end; ++at) {
      const Step& step = steps_[at];
      if (step.op == StepOp::kMove) {
        for (std::uint32_t s = 0; s < std::uint32_t{step.source_count} + step.destination_count; ++s)
          if (depends(plan_.spans[step.first + s].peer, variable)) return true;
      } else if (step.op <= StepOp::kWaitCredit && depends(step.peer, variable)) {
        return true;
      }
    }
    return false;
  }

  void block(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t at = first; at < end;) {
      const Step& step = steps_[at];
      if (step.op == StepOp::kRepeat || step.op == StepOp::kRounds || step.op == StepOp::kTiles) {
        last_ = step.op;
        hash(static_cast<std::uint64_t>(step.op) << 40 | static_cast<std::uint64_t>(step.by_k) << 32 |
             static_cast<std::uint32_t>(step.count));
        const bool repeat = step.op == StepOp::kRepeat;
        const bool all = repeat && varies(at + 1, step.jump - 1, step.variable);
        const int passes = !repeat ? 1 : all ? step.count : std::min(step.count, 1);
        int& variable = step.variable == 0 ? i_ : j_;
        for (int pass = 0; pass < passes; ++pass) {
          if (repeat) variable = pass;
          last_ = step.op;
          block(at + 1, step.jump - 1);
        }
        if (repeat) variable = 0;
        at = step.jump;
        continue;
      }
      one(step);
      ++at;
    }
  }

  void one(const Step& step) {
    hash(static_cast<std::uint64_t>(step.op) << 48 | static_cast<std::uint64_t>(step.extent.kind) << 40 |
         static_cast<std::uint64_t>(step.extent.cut) << 32 | static_cast<std::uint64_t>(step.channel) << 8 |
         static_cast<std::uint8_t>(step.bound));
    if (step.op != last_ || step.op == StepOp::kMove) ++phase_;
    last_ = step.op;
    switch (step.op) {
      case StepOp::kMove:
        hash(static_cast<std::uint64_t>(step.source_count) << 16 | step.destination_count);
        spans(step.first, step.source_count);
        spans(step.first + step.source_count, step.destination_count);
        break;
      case StepOp::kSignalData:
      case StepOp::kWaitCredit: end({step.channel, true, view_.peer(step.peer, i_, j_), phase_}); break;
      case StepOp::kSignalCredit:
      case StepOp::kWaitData: end({step.channel, false, view_.peer(step.peer, i_, j_), phase_}); break;
      default: break;
    }
  }

  void end(const OutlineEnd& end) {
    const auto [it, fresh] = end_at_.try_emplace(end, outline_.ends.size());
    if (fresh) outline_.ends.push_back(end);
    hash(it->second);
  }

  /// Sources have no order, nor have destinations: a rank's own input comes first or last by its place in the host.
  void spans(std::uint32_t first, std::uint32_t count) {
    std::uint64_t kinds = 0;
    for (std::uint32_t s = first; s < first + count; ++s)
      kinds += mixed(1, static_cast<std::uint64_t>(plan_.spans[s].kind));
    hash(kinds);
    for (std::uint32_t s = first; s < first + count; ++s) stream_of(plan_.spans[s]);
  }

  void stream_of(const SpanRef& span) {
    StreamKind kind = StreamKind::kPush;
    switch (span.kind) {
      case SpanKind::kSlotOut:
      case SpanKind::kPeerOutput: break;
      case SpanKind::kPeerInput:
      case SpanKind::kBoardIn: kind = StreamKind::kPull; break;
      default: return;
    }
    const OutlineStream stream{view_.peer(span.peer, i_, j_), kind, phase_};
    if (stream.peer == plan_.header.rank) return;
    const auto [it, fresh] = stream_at_.try_emplace(stream, outline_.streams.size());
    if (fresh) outline_.streams.push_back(stream);
    hash(it->second);
  }

  const Plan& plan_;
  PlanView view_;
  const Step* steps_ = nullptr;
  int i_ = 0, j_ = 0;
  std::int32_t phase_ = 0;
  StepOp last_ = StepOp::kEnd;
  Outline outline_;
  std::map<OutlineEnd, std::size_t> end_at_;
  std::map<OutlineStream, std::size_t> stream_at_;
};

}  // namespace

Outline outline_of(const Plan& plan) {
  return Walk(plan).run();
}

std::vector<std::uint16_t> Components::channels_of(const Plan& plan, const LaneProgram& lane) const {
  std::vector<std::uint16_t> channels;
  for (std::uint32_t s = lane.first; s < lane.first + lane.count; ++s) {
    const StepOp op = plan.steps[s].op;
    if (op >= StepOp::kSignalData && op <= StepOp::kWaitCredit) channels.push_back(plan.steps[s].channel);
  }
  return channels;
}

int Components::find(int channel) const {
  while (up_[static_cast<std::size_t>(channel)] != channel) channel = up_[static_cast<std::size_t>(channel)];
  return channel;
}

void Components::add(const Plan& plan) {
  for (const LaneProgram& lane : plan.lanes) {
    int first = -1;
    for (const std::uint16_t channel : channels_of(plan, lane)) {
      while (up_.size() <= channel) up_.push_back(static_cast<int>(up_.size()));
      if (first < 0) first = channel;
      const int a = find(first), b = find(channel);
      up_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    }
  }
}

int Components::count() const {
  int roots = 0;
  for (std::size_t c = 0; c < up_.size(); ++c) roots += up_[c] == static_cast<int>(c);
  return std::max(1, roots);
}

int Components::number_of(const Plan& plan, const LaneProgram& lane) const {
  const std::vector<std::uint16_t> channels = channels_of(plan, lane);
  if (channels.empty()) return 0;
  const int root = find(channels.front());
  int number = 0;
  for (int c = 0; c < root; ++c) number += up_[static_cast<std::size_t>(c)] == c;
  return number;
}

void Components::keep(Plan& plan, int component) const {
  std::erase_if(plan.lanes, [&](const LaneProgram& lane) { return number_of(plan, lane) != component; });
}

Result<Outlines> Outlines::of(const PlanFamily& family, bool engine) {
  Outlines all;
  all.end_first.push_back(0);
  all.stream_first.push_back(0);
  for (int label = 0; label < family.size; ++label) all.components.add(family.plan(label));
  for (int unit = 0; unit < family.size * all.components.count(); ++unit) {
    const int label = unit % family.size;
    Plan plan = family.plan(label);
    all.components.keep(plan, unit / family.size);
    const Outline outline = outline_of(plan);
    all.structure.push_back(outline.structure);
    all.ends.insert(all.ends.end(), outline.ends.begin(), outline.ends.end());
    if (engine) all.streams.push_back({label, StreamKind::kEngine, 0});
    all.streams.insert(all.streams.end(), outline.streams.begin(), outline.streams.end());
    if (all.ends.size() > kMostEnds || all.streams.size() > kMostEnds)
      return error(Code::kUnsupported,
                   "{} ranks each of which talks to hundreds of others: too many pairs to simulate; try a ring, a "
                   "tree, halving_doubling, log_step or hierarchical",
                   family.size);
    all.end_first.push_back(static_cast<std::uint32_t>(all.ends.size()));
    all.stream_first.push_back(static_cast<std::uint32_t>(all.streams.size()));
  }
  HOCKET_TRY(all.pair(static_cast<std::size_t>(family.size)));
  return all;
}

Status Outlines::pair(std::size_t labels) {
  const std::size_t n = structure.size();
  std::vector<std::vector<std::pair<OutlineEnd, std::int32_t>>> sorted(n);
  for (std::size_t r = 0; r < n; ++r) {
    for (std::uint32_t e = end_first[r]; e < end_first[r + 1]; ++e)
      sorted[r].emplace_back(ends[e], static_cast<std::int32_t>(e - end_first[r]));
    std::sort(sorted[r].begin(), sorted[r].end());
  }
  opposite.resize(ends.size());
  for (std::size_t r = 0; r < n; ++r)
    for (std::uint32_t e = end_first[r]; e < end_first[r + 1]; ++e) {
      const OutlineEnd wanted{ends[e].channel, !ends[e].outgoing, static_cast<std::int32_t>(r % labels), 0};
      const auto& there = sorted[r / labels * labels + static_cast<std::size_t>(ends[e].peer)];
      const auto found = std::lower_bound(there.begin(), there.end(), std::pair(wanted, std::int32_t{0}));
      if (found == there.end() || found->first != wanted)
        return error(Code::kInternal, "rank {} uses channel {} with rank {}, which does not", r % labels,
                     ends[e].channel, ends[e].peer);
      opposite[e] = found->second;
    }
  return {};
}

}  // namespace hocket::sim
