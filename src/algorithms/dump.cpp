// SPDX-License-Identifier: Apache-2.0
#include "algorithms/dump.hpp"

#include "base/format.hpp"

namespace hocket {
namespace {

void add_term(std::string& text, std::int32_t factor, std::string_view name) {
  if (factor == 0) return;
  const bool first = text.empty();
  const std::int64_t size = factor < 0 ? -std::int64_t{factor} : factor;
  if (first) {
    text += factor < 0 ? "-" : "";
  } else {
    text += factor < 0 ? " - " : " + ";
  }
  if (name.empty()) {
    text += format("{}", size);
  } else if (size == 1) {
    text += name;
  } else {
    text += format("{}*{}", size, name);
  }
}

/// Cuts are called a, b, c …
std::string cut_name(std::uint8_t cut) {
  return cut < 26 ? std::string(1, static_cast<char>('a' + cut)) : format("cut{}", cut);
}

std::string peer_text(const PeerIndex& peer) {
  const std::string index = to_text(peer.index);
  return peer.group == 0 ? index : format("g{}[{}]", peer.group, index);
}

std::string extent_text(const Extent& extent) {
  switch (extent.kind) {
    case ExtentKind::kChunk: return format("{}[{}]", cut_name(extent.cut), to_text(extent.index));
    case ExtentKind::kLongest: return format("longest {}", cut_name(extent.cut));
    case ExtentKind::kAlways: return "always";
  }
  return "?";
}

std::string span_text(const SpanRef& span) {
  const std::string index = to_text(span.index);
  const std::string piece = index == "0" ? "" : format("[{}]", index);
  switch (span.kind) {
    case SpanKind::kInput: return format("input {}[{}]", cut_name(span.cut), index);
    case SpanKind::kOutput: return format("output {}[{}]", cut_name(span.cut), index);
    case SpanKind::kPeerInput: return format("input of {} {}[{}]", peer_text(span.peer), cut_name(span.cut), index);
    case SpanKind::kPeerOutput: return format("output of {} {}[{}]", peer_text(span.peer), cut_name(span.cut), index);
    case SpanKind::kWork: return format("work[{}]", index);
    case SpanKind::kSlotIn: return format("slot{} ch{} from {}", piece, span.channel, peer_text(span.peer));
    case SpanKind::kSlotOut: return format("slot{} ch{} at {}", piece, span.channel, peer_text(span.peer));
    case SpanKind::kBoardOut: return format("board{} ch{}", piece, span.channel);
    case SpanKind::kBoardIn: return format("board{} ch{} of {}", piece, span.channel, peer_text(span.peer));
  }
  return "?";
}

std::string_view completion_text(std::uint32_t completion) {
  switch (completion) {
    case kSlotCompletion: return ", once puts have read the slot";
    case kAllCompletion: return ", once all puts have read their sources";
    default: return "";
  }
}

std::string_view grant_text(std::uint8_t grant) {
  switch (grant) {
    case kGrantInput: return ", grants input";
    case kGrantOutput: return ", grants output";
    case kGrantInput | kGrantOutput: return ", grants input and output";
    default: return "";
  }
}

std::string bound_text(const Step& step) {
  if (step.op == StepOp::kWaitData) return step.bound == 1 ? "" : format(" of {} more", step.bound);
  if (step.bound == kBoundFree) return " (a slot is free)";
  if (step.bound == 0) return " (all taken)";
  if (step.bound == -1) return " (the next is granted)";
  return format(" (at most {} outstanding)", step.bound);
}

std::string_view kind_text(CutKind kind) {
  switch (kind) {
    case CutKind::kEven: return "even";
    case CutKind::kRanks: return "ranks";
    case CutKind::kOwn: return "own";
    case CutKind::kSendRow: return "send row";
    case CutKind::kReceiveColumn: return "receive column";
  }
  return "?";
}

}  // namespace

std::string to_text(const Index& index) {
  std::string inner;
  if (index.base != 0) add_term(inner, index.base, "");
  add_term(inner, index.s0, "i");
  add_term(inner, index.s1, "j");
  const bool sum = inner.find(' ') != std::string::npos;
  if (inner.empty()) inner = "0";
  if (index.mod != 0) {
    const bool constant = index.s0 == 0 && index.s1 == 0;
    inner = constant ? format("{}", ((index.base % index.mod) + index.mod) % index.mod)
                     : format("{}{}{} mod {}", sum ? "(" : "", inner, sum ? ")" : "", index.mod);
  }
  if (index.scale == 1 && index.offset == 0) return inner;
  std::string text = index.scale == 1 ? inner : format("{}*({})", index.scale, inner);
  add_term(text, index.offset, "");
  return text;
}

std::string step_text(const PlanView& plan, const LaneProgram& lane, std::uint32_t at) {
  const Step& step = plan.steps[lane.first + at];
  const std::string peer = peer_text(step.peer);
  switch (step.op) {
    case StepOp::kMove: {
      std::string text = format("move {}: ", extent_text(step.extent));
      const SpanRef* span = plan.spans + step.first;
      for (std::uint32_t s = 0; s < step.source_count; ++s) text += (s == 0 ? "" : " + ") + span_text(span[s]);
      span += step.source_count;
      for (std::uint32_t d = 0; d < step.destination_count; ++d) text += (d == 0 ? " -> " : ", ") + span_text(span[d]);
      if (step.finish) text += ", finish";
      text += completion_text(step.completion);
      return text;
    }
    case StepOp::kSignalData:
      return format("signal data ch{} to {}, {}{}{}", step.channel, peer, extent_text(step.extent),
                    grant_text(step.grant), completion_text(step.completion));
    case StepOp::kSignalCredit:
      return format("signal credit ch{} to {}, {}{}{}", step.channel, peer, extent_text(step.extent),
                    grant_text(step.grant), completion_text(step.completion));
    case StepOp::kWaitData:
      return format("wait data ch{} from {}{}, {}", step.channel, peer, bound_text(step), extent_text(step.extent));
    case StepOp::kWaitCredit:
      return format("wait credit ch{} from {}{}, {}", step.channel, peer, bound_text(step), extent_text(step.extent));
    case StepOp::kRepeat: return format("repeat {} = 0 .. {}", step.variable == 0 ? "i" : "j", step.count - 1);
    case StepOp::kRounds: {
      std::string text = step.by_k ? "rounds of K tiles over" : "rounds over";
      for (std::uint32_t e = 0; e < step.extent_count; ++e)
        text += (e == 0 ? " " : ", ") + extent_text(plan.extents[step.first + e]);
      return text;
    }
    case StepOp::kTiles: return "tiles";
    case StepOp::kEnd: return "end";
  }
  return "?";
}

std::string to_text(const Plan& plan) {
  const PlanHeader& h = plan.header;
  std::string text = format("{} {}: rank {} of {}", to_string(h.collective), plan.algorithm(), h.rank, h.world);
  if (h.root >= 0) text += format(", root {}", h.root);
  text += format("; {} {}, {} {}", plan.lanes.size(), plan.lanes.size() == 1 ? "lane" : "lanes", h.channels,
                 h.channels == 1 ? "channel" : "channels");
  if (h.uses_slots) text += format(", {} {} a slot", h.pieces, h.pieces == 1 ? "tile" : "tiles");
  if (h.work_entries != 0) text += format(", {} tiles of scratch", h.work_entries);
  text += "\n";
  for (std::size_t c = 0; c < plan.cuts.size(); ++c)
    text += format("cut {} = {} {}\n", cut_name(static_cast<std::uint8_t>(c)), kind_text(plan.cuts[c].kind),
                   plan.cuts[c].chunks);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    text += format("group g{} =", g + 1);
    for (std::uint32_t r = 0; r < plan.groups[g].count; ++r)
      text += format(" {}", plan.group_ranks[plan.groups[g].first + r]);
    text += "\n";
  }
  const PlanView view = plan.view();
  for (std::size_t l = 0; l < plan.lanes.size(); ++l) {
    const LaneProgram& lane = plan.lanes[l];
    text += format("lane {}, part {} of {}\n", l, lane.part, lane.parts);
    int depth = 0;
    for (std::uint32_t at = 0; at < lane.count; ++at) {
      const StepOp op = view.steps[lane.first + at].op;
      if (op == StepOp::kEnd) --depth;
      text += format("{:4}  {:{}}{}\n", at, "", 2 * depth, step_text(view, lane, at));
      if (op == StepOp::kRepeat || op == StepOp::kRounds || op == StepOp::kTiles) ++depth;
    }
    if (lane.completion != kNoCompletion) text += format("      ends{}\n", completion_text(lane.completion));
  }
  return text;
}

}  // namespace hocket
