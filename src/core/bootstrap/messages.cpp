// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/messages.hpp"

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

Status status_of(const Frame& frame) {
  const auto code = static_cast<Code>(frame.header.detail);
  const bool known = frame.header.detail > 0 && frame.header.detail < 256 && to_string(code) != "unknown error";
  return Status(known ? code : Code::kInternal, frame.text());
}

}  // namespace hocket
