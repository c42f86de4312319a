// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/host_leader.hpp"

#include <algorithm>
#include <cstring>

#include "base/os/net_address.hpp"
#include "base/status.hpp"
#include "core/bootstrap/connect_root.hpp"

namespace hocket {

std::vector<FrameStream*> HostLeader::streams() {
  std::vector<FrameStream*> all;
  if (root_) all.push_back(&*root_);
  gather_.add_streams(all);
  for (Follower& follower : followers_) all.push_back(&follower.stream);
  reception_.add_streams(all);
  return all;
}

void HostLeader::tell(const Status& failure) {
  if (root_) root_->send_error(failure);
  for (Follower& follower : followers_) follower.stream.send_error(failure);
  gather_.send_error(failure);
}

bool HostLeader::flushed() const {
  return (!root_ || root_->flushed()) && gather_.flushed() &&
         std::all_of(followers_.begin(), followers_.end(), [](const Follower& f) { return f.stream.flushed(); });
}

Status HostLeader::admit(const Status& failure) {
  while (auto arrival = reception_.take()) {
    if (arrival->round) {
      gather_.link_from(*arrival->round, std::move(arrival->stream));
      continue;
    }
    followers_.push_back({std::move(arrival->stream), {}, {}});
    if (!failure.ok()) followers_.back().stream.send_error(failure);
  }
  return reception_.accept();
}

Status HostLeader::work() {
  HOCKET_TRY(look_at_callers());
  HOCKET_TRY(take_connections());
  HOCKET_TRY(hear_root());
  for (Follower& follower : followers_) HOCKET_TRY(hear(follower));
  return gather();
}

// ---- Meeting ----

// Which root: by this rank's number, so that each has its share of the hosts.
std::size_t HostLeader::root_index() const {
  return static_cast<std::size_t>(context_.hello.rank) * context_.roots.size() /
         static_cast<std::size_t>(callers_.size());
}

Status HostLeader::start() {
  return connector_.start(1, [this, deadline = callers_.first_deadline()](std::size_t) {
    return connect_to_root(context_.roots[root_index()], context_.hello, context_.name, context_.settings.interfaces,
                           {.deadline = deadline, .abort = &context_.stop});
  });
}

Status HostLeader::look_at_callers() {
  for (const Rank rank : callers_.take_new()) {
    to_report_.push_back(entry_of(rank, callers_.size()));
    own_ranks_.push_back(rank);
  }
  report();
  const auto late = callers_.timed_out();
  if (!late || timeout_sent_) return {};
  if (stage_ == Stage::kMeeting) {
    // Without a connection the connector's own deadline ends the wait, with all that it tried.
    if (!root_) return {};
    timeout_sent_ = true;
    root_->send(FrameKind::kTimeout, static_cast<std::uint32_t>(late->rank), 0, std::as_bytes(std::span(late->text)));
    return {};
  }
  if (stage_ == Stage::kLinking && connector_.busy()) return {};
  return error(Code::kTimeout, "{} for {}", late->text, waiting_for());
}

void HostLeader::report() {
  if (!root_ || to_report_.empty()) return;
  send_joins(*root_, to_report_);
  to_report_.clear();
}

Status HostLeader::take_connections() {
  while (auto next = connector_.take()) {
    HOCKET_ASSIGN(FrameStream stream, std::move(*next));
    stream.set_counters(context_.counters);
    if (stage_ == Stage::kMeeting) {
      HOCKET_TRY(report_to(std::move(stream)));
    } else {
      gather_.link_to(std::move(stream));
    }
  }
  return {};
}

// First says how others reach this leader.
Status HostLeader::report_to(FrameStream root) {
  root_.emplace(std::move(root));
  LeaderCard card;
  card.token = context_.hello.token;
  HOCKET_ASSIGN(card.network, os::network_identity());
  card.port = reception_.far().port();
  card.rank = context_.hello.rank;
  card.host = context_.hello.host;
  for (const os::NetAddress& address : reception_.far().addresses()) {
    if (card.address_count == LeaderCard::kMaxAddresses) break;
    card.addresses[card.address_count++] = address.bytes;
  }
  std::vector<std::byte> bytes;
  append(bytes, card);
  if (root_index() > 0) append(bytes, context_.roots.front().bytes);
  root_->send(FrameKind::kLeader, 0, 0, bytes);
  report();
  return {};
}

Status HostLeader::hear_root() {
  while (root_) {
    const auto frame = root_->take();
    if (!frame) break;
    if (frame->kind() != FrameKind::kWelcome) continue;
    HOCKET_TRY(gather_.take_place(frame->bytes, callers_.size(), context_.name));
    callers_.close();
    root_.reset();
    stage_ = Stage::kLinking;
    const std::vector<LeaderCard>& targets = gather_.targets();
    if (targets.empty()) return {};
    return connector_.start(targets.size(), [this, targets, deadline = callers_.first_deadline()](std::size_t k) {
      return connect_to_leader(targets[k], context_.hello, context_.secret, context_.name, context_.settings.interfaces,
                               {.deadline = deadline, .abort = &context_.stop});
    });
  }
  if (!root_ || root_->closed().ok()) return {};
  return error(Code::kPeerLost, "{} lost the root of the unique id before all had come: {}", context_.name,
               root_->closed().text());
}

Status HostLeader::hear(Follower& follower) {
  while (!follower.part) {
    auto frame = follower.stream.take();
    if (!frame) break;
    switch (frame->kind()) {
      case FrameKind::kJoin: {
        if (stage_ != Stage::kMeeting) {
          follower.stream.send_error(error(Code::kInvalidArgument,
                                           "the ranks of this unique id have met already: each communicator needs an "
                                           "id of its own"));
          return {};
        }
        Reader reader(frame->bytes);
        RankEntry entry;
        while (reader.read(entry)) {
          follower.ranks.push_back(entry);
          own_ranks_.push_back(entry.rank);
          to_report_.push_back(entry);
        }
        report();
        break;
      }
      case FrameKind::kPart: follower.part = std::move(frame); break;
      case FrameKind::kTimeout:
        if (stage_ != Stage::kMeeting) return error(Code::kTimeout, "{} for {}", frame->text(), waiting_for());
        if (root_) root_->send(FrameKind::kTimeout, frame->header.detail, 0, frame->bytes);
        break;
      case FrameKind::kError: return status_of(*frame);
      default:
        return error(Code::kMismatch, "{} sent a frame of kind {}", follower.stream.peer().name(), frame->header.kind);
    }
  }
  return {};
}

// ---- Exchanges ----

Status HostLeader::gather() {
  if (stage_ == Stage::kLinking && gather_.linked()) {
    stage_ = Stage::kRunning;
    std::sort(own_ranks_.begin(), own_ranks_.end());
  }
  if (stage_ == Stage::kMeeting) return {};
  HOCKET_TRY(miss_followers());
  if (stage_ != Stage::kRunning) return {};
  for (;;) {
    if (!gather_.under_way()) {
      HOCKET_ASSIGN(std::optional<HostGather::Block> own, own_block());
      if (!own) return {};
      gather_.begin(sequence_, std::move(*own));
    }
    HOCKET_ASSIGN(const bool complete, gather_.advance(context_.name));
    if (!complete) return {};
    HOCKET_TRY(sequence_ == 0 ? finish_meeting() : finish_exchange());
  }
}

// One that dies is missed when its part is; if that is in, it only misses the result.
Status HostLeader::miss_followers() const {
  if (gather_.under_way()) return {};
  for (const Follower& follower : followers_) {
    if (follower.stream.closed().ok() || follower.part || follower.ranks.empty()) continue;
    const bool needed =
        stage_ != Stage::kRunning || sequence_ == 0 || callers_.any_waits() ||
        std::any_of(followers_.begin(), followers_.end(), [](const Follower& f) { return f.part.has_value(); });
    if (!needed) continue;
    std::vector<Rank> ranks;
    for (const RankEntry& entry : follower.ranks) ranks.push_back(entry.rank);
    std::sort(ranks.begin(), ranks.end());
    return error(Code::kPeerLost, "{} is lost: {}", name_ranks(ranks), follower.stream.closed().text());
  }
  return {};
}

// What all ranks of this host give, nothing while some have not. Of the meeting: their numbers.
Result<std::optional<HostGather::Block>> HostLeader::own_block() {
  HostGather::Block block;
  if (sequence_ == 0) {
    for (const Rank rank : own_ranks_) append(block, rank);
    return std::optional(std::move(block));
  }
  for (const Follower& follower : followers_)
    if (!follower.ranks.empty() && !follower.part) return std::optional<HostGather::Block>();
  HOCKET_ASSIGN(const bool all, callers_.with_parts([&](std::vector<Callers::Part>& parts) -> Status {
    for (const Follower& follower : followers_) {
      if (follower.ranks.empty()) continue;
      const Frame& part = *follower.part;
      Reader reader(part.bytes);
      std::uint64_t each = 0;
      bool good = part.header.sequence == sequence_ && reader.read(each);
      for (std::size_t i = 0; good && i < follower.ranks.size(); ++i) {
        std::uint64_t rank = 0;
        std::span<const std::byte> mine;
        good = reader.read(rank) && reader.read(each, mine) &&
               std::any_of(follower.ranks.begin(), follower.ranks.end(),
                           [&](const RankEntry& entry) { return static_cast<std::uint64_t>(entry.rank) == rank; });
        parts.emplace_back(static_cast<Rank>(rank), mine);
      }
      if (!good || reader.left() != 0) {
        return error(Code::kMismatch,
                     "{} is at exchange {}, rank {} at {}: all ranks must make their communicators in the same order",
                     follower.stream.peer().name(), part.header.sequence, context_.hello.rank, sequence_);
      }
    }
    std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const std::uint64_t each = parts.front().second.size();
    append(block, each);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& [rank, mine] = parts[i];
      if (mine.size() != each || rank != own_ranks_[i])
        return unequal_parts(parts.front().first, each, rank, mine.size());
      block.insert(block.end(), mine.begin(), mine.end());
    }
    return {};
  }));
  if (!all) return std::optional<HostGather::Block>();
  for (Follower& follower : followers_) follower.part.reset();
  return std::optional(std::move(block));
}

// The ranks of all hosts are known.
Status HostLeader::finish_meeting() {
  const std::vector<HostGather::Block> blocks = gather_.take_blocks();
  host_ranks_.assign(blocks.size(), {});
  std::vector<bool> seen(static_cast<std::size_t>(callers_.size()));
  std::size_t count = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Reader reader(blocks[i]);
    Rank rank = 0;
    while (reader.read(rank)) {
      if (rank < 0 || rank >= callers_.size() || seen[static_cast<std::size_t>(rank)]) {
        return error(Code::kInternal, "the hosts' lists have rank {} twice or out of range", rank);
      }
      seen[static_cast<std::size_t>(rank)] = true;
      host_ranks_[gather_.host_of(i)].push_back(rank);
      ++count;
    }
  }
  if (count != seen.size()) return error(Code::kInternal, "the hosts' lists have {} ranks of {}", count, seen.size());
  sequence_ = 1;
  for (Follower& follower : followers_)
    if (!follower.ranks.empty())
      follower.stream.send(FrameKind::kReady, static_cast<std::uint32_t>(blocks.size()), 0, {});
  callers_.set_ready();
  return {};
}

// All blocks, put in the order of ranks.
Status HostLeader::finish_exchange() {
  const std::vector<HostGather::Block> blocks = gather_.take_blocks();
  std::uint64_t each = 0;
  std::memcpy(&each, blocks[0].data(), sizeof each);
  std::vector<std::byte> whole(each * static_cast<std::uint64_t>(callers_.size()));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::vector<Rank>& ranks = host_ranks_[gather_.host_of(i)];
    Reader reader(blocks[i]);
    std::uint64_t theirs = 0;
    if (!reader.read(theirs) || theirs != each || reader.left() != each * ranks.size())
      return unequal_parts(host_ranks_[gather_.host_of(0)].front(), each, ranks.front(), theirs);
    for (const Rank rank : ranks) {
      std::span<const std::byte> bytes;
      (void)reader.read(each, bytes);
      if (each != 0) std::memcpy(whole.data() + static_cast<std::uint64_t>(rank) * each, bytes.data(), each);
    }
  }
  for (Follower& follower : followers_)
    if (!follower.ranks.empty()) follower.stream.send(FrameKind::kWhole, 0, sequence_, whole);
  ++sequence_;
  return callers_.deliver(whole);
}

std::string HostLeader::waiting_for() const {
  if (stage_ == Stage::kMeeting) return "all ranks to come";
  if (stage_ == Stage::kLinking) return gather_.missing_links();
  if (gather_.under_way()) return format("{} in exchange {}", gather_.source(), sequence_);
  std::vector<Rank> missing = callers_.absent();
  for (const Follower& follower : followers_)
    if (!follower.part)
      for (const RankEntry& entry : follower.ranks) missing.push_back(entry.rank);
  std::sort(missing.begin(), missing.end());
  return missing.empty() ? format("exchange {}", sequence_)
                         : format("{} of its host in exchange {}", name_ranks(missing), sequence_);
}

}  // namespace hocket
