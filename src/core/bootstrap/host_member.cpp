// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/host_member.hpp"

#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"

namespace hocket {

Status HostMember::work() {
  std::vector<RankEntry> entries;
  for (const Rank rank : callers_.take_new()) entries.push_back(entry_of(rank, callers_.size()));
  send_joins(leader_, entries);
  if (const auto late = callers_.timed_out(); late && !std::exchange(timeout_sent_, true))
    leader_.send(FrameKind::kTimeout, static_cast<std::uint32_t>(late->rank), 0, std::as_bytes(std::span(late->text)));
  HOCKET_TRY(receive());
  return ready_ && !part_sent_ ? send_part() : Status();
}

Status HostMember::receive() {
  while (auto frame = leader_.take()) {
    switch (frame->kind()) {
      case FrameKind::kReady:
        ready_ = true;
        sequence_ = 1;
        hosts_ = static_cast<int>(frame->header.detail);
        callers_.close();
        callers_.set_ready();
        break;
      case FrameKind::kWhole:
        if (frame->header.sequence != sequence_ || !part_sent_) {
          return error(Code::kMismatch, "the leader sent exchange {} instead of {}", frame->header.sequence, sequence_);
        }
        ++sequence_;
        part_sent_ = false;
        HOCKET_TRY(callers_.deliver(frame->bytes));
        break;
      default: break;
    }
  }
  if (leader_.closed().ok() || (ready_ && !callers_.any_waits())) return {};
  return error(Code::kPeerLost, "{} lost the leader of its host: {}", name_, leader_.closed().text());
}

Status HostMember::send_part() {
  std::vector<std::byte> bytes;
  HOCKET_ASSIGN(const bool all, callers_.with_parts([&](std::vector<Callers::Part>& parts) -> Status {
    const std::uint64_t each = parts.front().second.size();
    append(bytes, each);
    for (const auto& [rank, mine] : parts) {
      if (mine.size() != each) return unequal_parts(parts.front().first, each, rank, mine.size());
      append(bytes, static_cast<std::uint64_t>(rank));
      bytes.insert(bytes.end(), mine.begin(), mine.end());
    }
    return {};
  }));
  if (!all) return {};
  part_sent_ = true;
  leader_.send(FrameKind::kPart, 0, sequence_, bytes);
  return {};
}

}  // namespace hocket
