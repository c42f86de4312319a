// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/host_gather.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/status.hpp"

namespace hocket {

// ---- Links ----

Status HostGather::take_place(std::span<const std::byte> welcome, int size, std::string_view self) {
  Reader reader(welcome);
  bool good = reader.read(place_) && place_.hosts >= 1 && place_.hosts <= static_cast<std::uint32_t>(size) &&
              place_.index < place_.hosts && place_.rounds == rounds_of(place_.hosts);
  for (auto* cards : {&targets_, &sources_}) {
    cards->resize(good ? place_.rounds : 0);
    for (LeaderCard& card : *cards) good = good && reader.read(card) && card.valid();
  }
  if (!good || reader.left() != 0) return error(Code::kMismatch, "the root welcomed {} with nonsense", self);
  to_.resize(place_.rounds);
  from_.resize(place_.rounds);
  return {};
}

void HostGather::link_to(FrameStream stream) {
  const auto k = static_cast<std::size_t>(std::find(to_.begin(), to_.end(), std::nullopt) - to_.begin());
  to_[k].emplace(std::move(stream));
  to_[k]->send(FrameKind::kLink, static_cast<std::uint32_t>(k), 0, {});
}

void HostGather::link_from(std::uint32_t round, FrameStream stream) {
  const bool known = place_.hosts != 0;  // else room is made as needed
  if (known && round >= place_.rounds) return;
  if (from_.size() <= round) from_.resize(round + 1);
  if (!from_[round]) from_[round].emplace(std::move(stream));
}

bool HostGather::linked() const {
  for (std::size_t k = 0; k < place_.rounds; ++k)
    if (!to_[k] || !from_[k]) return false;
  return true;
}

std::string HostGather::missing_links() const {
  std::string text;
  for (std::size_t k = 0; k < place_.rounds; ++k)
    if (!from_[k]) text += format("{}{}", text.empty() ? "" : ", ", sources_[k].name());
  return text.empty() ? "connections of its own" : "a connection from " + text;
}

void HostGather::add_streams(std::vector<FrameStream*>& streams) {
  for (auto* links : {&to_, &from_})
    for (auto& stream : *links)
      if (stream) streams.push_back(&*stream);
}

void HostGather::send_error(const Status& status) {
  for (auto* links : {&to_, &from_})
    for (auto& stream : *links)
      if (stream) stream->send_error(status);
}

bool HostGather::flushed() const {
  const auto done = [](const std::optional<FrameStream>& stream) { return !stream || stream->flushed(); };
  return std::all_of(to_.begin(), to_.end(), done) && std::all_of(from_.begin(), from_.end(), done);
}

// ---- Gathering ----

void HostGather::begin(std::uint64_t sequence, Block own) {
  under_way_ = true;
  sequence_ = sequence;
  round_ = 0;
  round_sent_ = false;
  blocks_.clear();
  blocks_.push_back(std::move(own));
}

Result<bool> HostGather::advance(std::string_view self) {
  for (; round_ < place_.rounds; ++round_, round_sent_ = false) {
    if (!round_sent_) send_blocks();
    const auto frame = from_[round_]->take();
    if (frame) {
      HOCKET_TRY(receive_blocks(*frame));
      continue;
    }
    if (const Status& lost = from_[round_]->closed(); !lost.ok())
      return error(Code::kPeerLost, "{} lost {}: {}", self, sources_[round_].name(), lost.text());
    return false;
  }
  return true;
}

void HostGather::send_blocks() {
  const auto held = static_cast<std::uint32_t>(blocks_.size());
  const std::uint32_t count = std::min(held, place_.hosts - held);
  std::vector<std::byte> bytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    append(bytes, BlockHead{.host = static_cast<std::uint32_t>(host_of(i)), .reserved = 0, .bytes = blocks_[i].size()});
    bytes.insert(bytes.end(), blocks_[i].begin(), blocks_[i].end());
  }
  to_[round_]->send(FrameKind::kBlocks, round_, sequence_, bytes);
  round_sent_ = true;
  ++rounds_done_;
}

Status HostGather::receive_blocks(const Frame& frame) {
  const auto wrong = [&](std::string_view what) {
    return error(Code::kMismatch, "{} sent {} in round {} of exchange {}", sources_[round_].name(), what, round_,
                 sequence_);
  };
  if (frame.kind() != FrameKind::kBlocks || frame.header.detail != round_) return wrong("something else");
  if (frame.header.sequence != sequence_) return wrong(format("exchange {}", frame.header.sequence));
  const auto held = static_cast<std::uint32_t>(blocks_.size());
  const std::uint32_t count = std::min(held, place_.hosts - held);
  Reader reader(frame.bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    BlockHead head;
    std::span<const std::byte> bytes;
    if (!reader.read(head) || head.host != host_of(held + i) || !reader.read(head.bytes, bytes))
      return wrong("blocks of other hosts");
    blocks_.emplace_back(bytes.begin(), bytes.end());
  }
  return reader.left() == 0 ? Status() : wrong("more than its blocks");
}

std::vector<HostGather::Block> HostGather::take_blocks() {
  under_way_ = false;
  return std::exchange(blocks_, {});
}

}  // namespace hocket
