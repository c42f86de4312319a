// SPDX-License-Identifier: Apache-2.0
// core/shrink.cpp: a new communicator of the ranks that are left, also after the old one has failed.
//
// The old channels are of no more use then, so survivors meet on pages of their old blocks (MeetingPage). Each writes
// whom it takes for lost; whoever sees a difference takes the union and writes again; when all agree, each commits, and
// when all have committed, they exchange what a new communicator needs on the same pages. Nothing that an excluded rank
// could still write to is used again: the new communicator has new blocks, the old ones are given up for good.
#include <algorithm>
#include <cstring>
#include <thread>

#include "base/log.hpp"
#include "base/os/process.hpp"
#include "base/status.hpp"
#include "core/communicator_state.hpp"

namespace hocket {
namespace {

// A page's round: the attempt (from 1) in the upper half, proposals made in it in the lower, and this bit.
constexpr std::uint64_t kCommitted = std::uint64_t{1} << 63;
constexpr std::uint64_t attempt_of(std::uint64_t round) {
  return (round & ~kCommitted) >> 32;
}

class Meeting {
 public:
  Meeting(CommunicatorState& state, std::vector<bool> excluded, std::uint64_t attempt)
      : state_(state), excluded_(std::move(excluded)), round_(attempt << 32) {
    // What an attempt before left behind: nobody looks at it before this one's first proposal.
    own_page().exchange.store(0, std::memory_order_relaxed);
    own_page().exchange_read.store(0, std::memory_order_relaxed);
  }

  /// Agree with all who are not excluded; who does not come in time is excluded as well.
  /// Ranks that are still in a call get until `grace` to end it; then the communicator is aborted.
  Status agree(std::chrono::milliseconds patience, os::Deadline grace);
  const std::vector<bool>& excluded() const { return excluded_; }
  /// An exchange between the survivors, in rank order.
  Status exchange(std::span<const std::byte> mine, std::span<std::byte> all, os::Deadline deadline);

 private:
  /// The head of a rank's page.
  struct Head {
    std::uint64_t round = 0, exchange = 0, exchange_read = 0, exchange_bytes = 0;
    std::uint64_t excluded[MeetingPage::kMaxRanks / 64] = {};
  };
  static_assert(offsetof(MeetingPage, excluded) == offsetof(Head, excluded));

  MeetingPage& own_page() const {
    return *reinterpret_cast<MeetingPage*>(state_.engine->arena().base() + state_.block_offset +
                                           state_.layout.meeting_at);
  }
  /// Nothing if the rank cannot be asked.
  std::optional<Head> head_of(Rank r) const {
    Head head;
    const std::size_t words = (excluded_.size() + 63) / 64;
    const std::size_t bytes = offsetof(Head, excluded) + words * sizeof(std::uint64_t);
    if (!state_.fetch(r, state_.layout.meeting_at, std::as_writable_bytes(std::span(&head, 1)).first(bytes)).ok())
      return {};
    return head;
  }
  void write_proposal() {
    MeetingPage& own = own_page();
    for (std::size_t w = 0; w * 64 < excluded_.size(); ++w) {
      std::uint64_t word = 0;
      for (std::size_t b = 0; b < 64 && w * 64 + b < excluded_.size(); ++b)
        if (excluded_[w * 64 + b]) word |= std::uint64_t{1} << b;
      own.excluded[w].store(word, std::memory_order_relaxed);
    }
    ++round_;
    own.round.store(round_, std::memory_order_release);  // pairs with the acquire in agree()
  }
  std::vector<bool> proposal(const Head& head) const {
    std::vector<bool> other(excluded_.size());
    for (std::size_t i = 0; i < other.size(); ++i) other[i] = (head.excluded[i / 64] >> (i % 64)) & 1;
    return other;
  }

  CommunicatorState& state_;
  std::vector<bool> excluded_;
  std::uint64_t round_;
  std::uint64_t exchanges_ = 0;
};

void pause_a_moment() {
  std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void abort_old(CommunicatorState& state) {
  state.fail(Code::kAborted, format("rank {} shrinks the communicator", state.rank));
}

Status Meeting::agree(std::chrono::milliseconds patience, os::Deadline grace) {
  MeetingPage& own = own_page();
  write_proposal();
  os::Deadline deadline = os::Deadline::after(patience);
  bool committed = false;
  for (;;) {
    bool equal = true, all_committed = true, changed = false;
    Rank missing = -1;
    for (Rank r = 0; r < state_.size; ++r) {
      if (excluded_[static_cast<std::size_t>(r)] || r == state_.rank) continue;
      bool lost = false;
      {
        const std::lock_guard lock(state_.end_mutex);
        lost = state_.lost[static_cast<std::size_t>(r)];
      }
      if (lost) {
        excluded_[static_cast<std::size_t>(r)] = changed = true;
        continue;
      }
      // The round once more after the rest: a proposal that was being written is looked at again.
      const std::optional<Head> head = head_of(r);
      const std::optional<Head> again = head ? head_of(r) : head;
      const bool steady = again && again->round == head->round;
      const std::uint64_t round = steady ? head->round : 0;
      if (attempt_of(round) < attempt_of(round_)) {  // not here yet
        equal = false;
        missing = r;
        continue;
      }
      if (attempt_of(round) > attempt_of(round_))
        return error(Code::kPeerLost, "{} gave this attempt up; shrink again", state_.name_of(r));
      const std::vector<bool> other = proposal(*head);
      if (other[static_cast<std::size_t>(state_.rank)])
        return error(Code::kPeerLost, "{} takes rank {} for lost and goes on without it", state_.name_of(r),
                     state_.rank);
      for (std::size_t i = 0; i < other.size(); ++i)
        if (other[i] && !excluded_[i]) excluded_[i] = changed = true;
      if (other != excluded_) equal = false;
      if ((round & kCommitted) == 0) {
        all_committed = false;
        if (missing < 0) missing = r;
      }
    }
    if (changed) {
      committed = false;
      write_proposal();
      deadline = os::Deadline::after(patience);
      continue;
    }
    if (equal && !committed) {
      committed = true;
      own.round.store(round_ | kCommitted, std::memory_order_release);
      continue;
    }
    if (equal && all_committed) return {};
    if (grace.passed()) abort_old(state_);
    if (deadline.passed()) {
      if (missing < 0) return error(Code::kInternal, "survivors do not agree on who is left");
      HOCKET_LOG(LogLevel::kWarn, "rank {} goes on without {}: it did not come to shrink within {} ms", state_.rank,
                 state_.name_of(missing), patience.count());
      excluded_[static_cast<std::size_t>(missing)] = true;
      committed = false;
      write_proposal();
      deadline = os::Deadline::after(patience);
      continue;
    }
    pause_a_moment();
  }
}

Status Meeting::exchange(std::span<const std::byte> mine, std::span<std::byte> all, os::Deadline deadline) {
  if (mine.size() > MeetingPage::kBytes)
    return error(Code::kInternal, "an exchange of {} bytes does not fit a meeting page", mine.size());
  const auto wait_for = [&](auto&& ready) -> Status {
    for (Rank r = 0; r < state_.size; ++r) {
      if (excluded_[static_cast<std::size_t>(r)]) continue;
      std::optional<Head> head;
      while (!(head = head_of(r)) || !ready(*head)) {
        // The one that is lost need not be the one that is waited for here: whoever saw it first gives this attempt up.
        Rank lost = -1;
        {
          const std::lock_guard lock(state_.end_mutex);
          for (Rank q = 0; q < state_.size && lost < 0; ++q)
            if (state_.lost[static_cast<std::size_t>(q)] && !excluded_[static_cast<std::size_t>(q)]) lost = q;
        }
        if (lost >= 0)
          return error(Code::kPeerLost, "{} was lost while the survivors met; shrink again", state_.name_of(lost));
        if (head && attempt_of(head->round) > attempt_of(round_))
          return error(Code::kPeerLost, "{} gave this attempt up; shrink again", state_.name_of(r));
        if (deadline.passed()) return error(Code::kTimeout, "{} did not go on with shrink", state_.name_of(r));
        pause_a_moment();
      }
    }
    return {};
  };
  MeetingPage& own = own_page();
  const std::uint64_t k = exchanges_++;
  // My page may change when everybody has read what it held.
  HOCKET_TRY(wait_for([&](const Head& h) { return h.exchange_read >= k; }));
  std::memcpy(own.bytes, mine.data(), mine.size());
  own.exchange_bytes.store(mine.size(), std::memory_order_relaxed);
  own.exchange.store(k + 1, std::memory_order_release);
  HOCKET_TRY(wait_for([&](const Head& h) { return h.exchange >= k + 1; }));
  std::size_t at = 0;
  for (Rank r = 0; r < state_.size; ++r) {
    if (excluded_[static_cast<std::size_t>(r)]) continue;
    const std::optional<Head> head = head_of(r);
    if (!head || head->exchange_bytes != mine.size())
      return error(Code::kMismatch, "{} exchanges another length", state_.name_of(r));
    HOCKET_TRY(state_.fetch(r, state_.layout.meeting_at + offsetof(MeetingPage, bytes), all.subspan(at, mine.size())));
    at += mine.size();
  }
  own.exchange_read.store(k + 1, std::memory_order_release);
  return {};
}

}  // namespace

Result<Communicator> Communicator::shrink(std::span<const Rank> excluded, std::chrono::milliseconds patience) {
  if (!state_) return error(Code::kInvalidArgument, "shrink of a communicator that was moved from");
  CommunicatorState& s = *state_;
  if (s.engine->forked())
    return error(Code::kUnsupported, "shrink in a forked child of the process that made the communicator");
  if (s.replaced.load(std::memory_order_acquire))
    return error(Code::kInvalidArgument, "this communicator was shrunk already");
  std::vector<bool> out(static_cast<std::size_t>(s.size));
  for (const Rank r : excluded) {
    if (r < 0 || r >= s.size) return error(Code::kInvalidArgument, "shrink excludes rank {} of {}", r, s.size);
    if (r == s.rank) return error(Code::kInvalidArgument, "rank {} calls shrink and excludes itself", r);
    out[static_cast<std::size_t>(r)] = true;
  }
  if (static_cast<std::size_t>(s.size) > MeetingPage::kMaxRanks || s.size > kEagerRanks)
    return error(Code::kUnsupported, "shrink of {} ranks: up to {} can meet after a failure", s.size, kEagerRanks);

  // A rank that is first to come to shrink may have ended a call in which others still are: they should end it, too.
  // Unless this rank has work of its own under way, or the communicator has failed already.
  os::Deadline grace = os::Deadline::after(std::min<std::chrono::nanoseconds>(patience / 2, std::chrono::seconds(1)));
  if (s.check_ended() || !s.turnstile.empty()) {
    abort_old(s);
    grace = os::Deadline::never();
  }
  const std::uint64_t ticket = s.turnstile.take();
  s.turnstile.wait(ticket);
  struct Leave {
    CommunicatorState& s;
    std::uint64_t ticket;
    ~Leave() {
      if (s.turnstile.leave(ticket)) s.engine->progress().wake();
    }
  } leave{s, ticket};

  {
    const std::lock_guard lock(s.end_mutex);
    for (std::size_t r = 0; r < out.size(); ++r)
      if (s.lost[r] && static_cast<Rank>(r) != s.rank) out[r] = true;
  }
  Meeting meeting(s, std::move(out), ++s.shrinks);
  const Status agreed = meeting.agree(patience, grace);
  abort_old(s);
  HOCKET_TRY(Status(agreed));
  s.excluded = meeting.excluded();
  s.shrunk.store(true, std::memory_order_release);

  const os::WaitLimits limits{
      os::Deadline::after(std::max<std::chrono::nanoseconds>(patience, std::chrono::seconds(5)))};
  std::vector<Rank> group;
  for (Rank r = 0; r < s.size; ++r) {
    if (!meeting.excluded()[static_cast<std::size_t>(r)]) {
      group.push_back(r);
      continue;
    }
    // An excluded rank that maps mem_alloc memory could still write to it.
    if (s.symmetric.empty()) continue;
    const ProcessAddress& address = s.members[static_cast<std::size_t>(r)].address;
    if (address.host != s.engine->address().host) {
      // Only what the network knows of it tells whether it still runs.
      const PeerView* const view = s.channels->find(r);
      if (view == nullptr || !view->endpoint->error().ok()) continue;
      return error(Code::kUnsupported,
                   "{} is excluded but may still run on another host, and it may write to mem_alloc memory of this "
                   "communicator: end it first",
                   s.name_of(r));
    }
    const auto stat = os::process_stat(address.pid);
    if (!stat.ok() || stat->dead() || stat->start_time_ticks != address.pid_start_ticks) continue;
    if (address.token == s.engine->address().token)
      return error(Code::kUnsupported,
                   "rank {} is a thread of this process and may still use mem_alloc memory of this communicator", r);
    if (!s.settings.fence_excluded)
      return error(
          Code::kUnsupported,
          "{} is excluded but may still run, and it maps mem_alloc memory of this communicator: end it first, or allow "
          "hocket to kill it (HOCKET_FENCE=1)",
          s.name_of(r));
    HOCKET_TRY(s.engine->fence(address.token, limits));
  }

  CreateArgs args;
  args.rank = static_cast<Rank>(std::find(group.begin(), group.end(), s.rank) - group.begin());
  args.size = static_cast<int>(group.size());
  args.settings = s.settings;
  args.engine = s.engine;
  args.exchange = [&meeting, &limits](std::span<const std::byte> mine, std::span<std::byte> all) {
    return meeting.exchange(mine, all, limits.deadline);
  };
  HOCKET_ASSIGN(auto made, make_communicator(std::move(args)));
  s.replaced.store(true, std::memory_order_release);
  return Communicator(std::move(made));
}

}  // namespace hocket
