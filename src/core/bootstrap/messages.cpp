// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/messages.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/format.hpp"
#include "base/status.hpp"

namespace hocket {

std::string LeaderCard::name() const {
  std::string text;
  for (const char c : host) {
    if (c == '\0') break;
    text += c >= ' ' && c <= '~' ? c : '?';
  }
  return format("host {} (rank {})", text, rank);
}

std::string name_ranks(std::span<const Rank> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr int kStretches = 16;
  int stretches = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (stretches == kStretches) return text + format(" and {} more", ranks.size() - i);
    if (stretches++ > 0) text += ", ";
    text += format("{}", ranks[i]);
    if (end - i > 1) text += format("{}{}", end - i > 2 ? "-" : ", ", ranks[end - 1]);
    i = end;
  }
  return text;
}

RankEntry entry_of(Rank rank, int size) {
  return {.rank = rank, .size = size, .pid = static_cast<std::uint32_t>(::getpid()), .reserved = 0};
}

void send_joins(FrameStream& to, std::span<const RankEntry> entries) {
  constexpr std::size_t kMost = FrameStream::kSmall / sizeof(RankEntry);
  for (; !entries.empty(); entries = entries.subspan(std::min(entries.size(), kMost)))
    to.send(FrameKind::kJoin, 0, 0, std::as_bytes(entries.first(std::min(entries.size(), kMost))));
}

Status unequal_parts(Rank a, std::uint64_t bytes_a, Rank b, std::uint64_t bytes_b) {
  return error(Code::kMismatch, "rank {} exchanges {} bytes and rank {} {}: all must be equal", a, bytes_a, b, bytes_b);
}

Status status_of(const Frame& frame) {
  const auto code = static_cast<Code>(frame.header.detail);
  const bool known = frame.header.detail > 0 && frame.header.detail < 256 && to_string(code) != "unknown error";
  return Status(known ? code : Code::kInternal, frame.text());
}

}  // namespace hocket
