// SPDX-License-Identifier: Apache-2.0
// core/diagnosis.cpp: what is wrong when a call does not get on.
//
// Mismatch: the header of a transfer carries the hash of the sender's call, so a difference is seen on arrival; a rank
// that waits reads the call board of the peer it waits for at its own call number. docs/design.md, "Mismatch", says why
// no difference can stay unseen. Who is to blame: the rank that this one waits for may itself only wait; the chain is
// followed to its end.
#include <algorithm>
#include <set>

#include "base/os/process.hpp"
#include "base/status.hpp"
#include "core/communicator_state.hpp"

namespace hocket {
namespace {

/// A blocked rank renews its heartbeat four times a second; this much later it does not run.
constexpr std::int64_t kStale = 1'500'000'000;

/// "stopped (state T)", "ended", or empty: alive as far as /proc tells, or out of its sight, as on another host.
std::string process_trouble(const ProcessAddress& address, const ProcessAddress& self) {
  if (address.host != self.host) return {};
  const auto stat = os::process_stat(address.pid);
  if (!stat.ok() || stat->start_time_ticks != address.pid_start_ticks) return {};
  if (stat->stopped()) return "its process is stopped";
  if (stat->dead()) return "its process has ended";
  return {};
}

/// The same call of the user's, done in another way: where the ranks have a tuner, it is to blame.
std::string tuner_hint(const World& world, const RecordedCall& mine, const RecordedCall& theirs) {
  const bool same = mine.collective == theirs.collective && mine.count == theirs.count && mine.type == theirs.type &&
                    mine.root == theirs.root;
  const bool other_way = mine.algorithm != theirs.algorithm || mine.protocol != theirs.protocol ||
                         mine.lanes != theirs.lanes || mine.tile_bytes != theirs.tile_bytes;
  if (!world.tuner || !same || !other_way) return {};
  return format("; the tuner '{}' (Settings::tuner) must choose alike on all ranks", world.tuner->name);
}

}  // namespace

RecordedCall CommunicatorState::describe(const ReadyCall& call) const {
  RecordedCall r;
  const bool message = is_message(call.key.collective);
  r.number = (message ? messages : calls) - 1;
  r.hash = call.bound.hash;
  r.count = call.key.count;
  r.collective = call.key.collective;
  r.type = call.key.type;
  r.op = call.key.op;
  r.protocol = call.choice.protocol;
  r.algorithm = static_cast<std::uint8_t>(call.choice.algorithm - algorithms().data());
  r.lanes = call.choice.lanes;
  r.root = call.key.root;
  std::copy_n(call.operator_name, 2, r.operator_name);
  r.tile_bytes = static_cast<std::uint32_t>(call.choice.tile_bytes);
  return r;
}

/// How many elements the peer sends where a pair's hash is made of its count: by trying, since a hash cannot be undone.
std::string CommunicatorState::pair_mismatch_text(const ReadyCall& call, Rank peer, std::uint64_t their_hash) const {
  constexpr std::uint64_t kMostTried = std::uint64_t{1} << 22;
  const bool exchange = call.key.collective == Collective::kExchange;
  const Uneven& u = *call.uneven;
  std::uint64_t expected = 0;
  DataType type = call.key.type;
  if (!exchange) {
    expected = u.receive_counts[static_cast<std::size_t>(peer)];
  } else {
    // The message under way.
    const auto e =
        static_cast<std::size_t>(u.in[static_cast<std::size_t>(peer)].hash - u.hashes.data()) - u.sends.size();
    if (e >= u.receives.size() || u.receives[e] != peer) return {};
    type = u.receive_types[e];
    expected = u.receive_counts[e] / size_of(type);
  }
  std::string got = "a different number";
  for (std::uint64_t count = 0; count < kMostTried; ++count) {
    const std::uint64_t hash =
        exchange ? message_hash(count, type, peer, rank, call.choice, world) : pair_hash(call.hash, count);
    if (hash != their_hash) continue;
    got = format("{}", count);
    break;
  }
  if (exchange)
    return format("the two sides of a message differ: {} sends {} {} to rank {}, which receives {} {} from it in {}",
                  name_of(peer), got, got[0] == 'a' ? "or type of elements" : to_string(type), rank, expected,
                  to_string(type), to_text(describe(call)));
  return format("ranks disagree on their part of {}: {} sends rank {} {} of its elements, rank {} expects {}",
                to_text(describe(call)), name_of(peer), rank, got, rank, expected);
}

std::string CommunicatorState::mismatch_text(const ReadyCall& call, Rank peer, std::uint64_t their_hash) {
  const bool message = is_message(call.key.collective);
  if (call.uneven != nullptr && call.bound.hashes_in != nullptr) {
    if (std::string text = pair_mismatch_text(call, peer, their_hash); !text.empty()) return text;
  }
  std::string theirs = "a different call", hint;
  if (const auto live = live_of(peer)) {
    // The newest of the peer's records with that hash; headers carry no number.
    const std::uint64_t newest = message ? live->point_to_point : live->entered;
    const std::uint64_t look_back = channels->peer(peer).block != nullptr ? layout.records : 8;
    for (std::uint64_t back = 1; back <= std::min(newest, look_back); ++back) {
      RecordedCall r;
      if (record_of(peer, message, newest - back, &r) && r.hash == their_hash) {
        theirs = to_text(r);
        hint = tuner_hint(world, describe(call), r);
        break;
      }
    }
  }
  return format("ranks made different calls: {} is in {}; {} is in {}{}", name_of(rank), to_text(describe(call)),
                name_of(peer), theirs, hint);
}

std::string CommunicatorState::find_mismatch(const ReadyCall& call, const WaitingOn& waiting) {
  if (waiting.peer < 0 || is_message(call.key.collective)) return {};
  RecordedCall theirs;
  if (!record_of(waiting.peer, false, calls - 1, &theirs)) return {};  // late, or long past
  if (theirs.hash == call.bound.hash) return {};
  return format("ranks made different calls: {} is in {}; {} is in {}{}", name_of(rank), to_text(describe(call)),
                name_of(waiting.peer), to_text(theirs), tuner_hint(world, describe(call), theirs));
}

void CommunicatorState::look_back() {
  if (!any_untaken) return;
  any_untaken = false;
  // Somebody may be waiting for this, and who does not answer now is looked at again.
  constexpr std::chrono::milliseconds kPatienceForEach{20};
  std::set<Rank> silent;
  for (const auto& [key, plan] : plans) {
    for (Drain& drain : plan->drains) {
      while (drain.untaken != 0 && !silent.contains(drain.peer)) {
        const std::uint64_t number = drain.untaken - 1;
        RecordedCall mine, theirs;
        const auto live = live_of(drain.peer, kPatienceForEach);
        if (!live) silent.insert(drain.peer);
        if (!live || live->entered <= number) break;  // it is late
        // What is long past for either was taken since: so far ahead is nobody.
        if (read_record(records(), layout.records, number, &mine) && record_of(drain.peer, false, number, &theirs) &&
            mine.hash != theirs.hash) {
          fail(Code::kMismatch, format("ranks made different calls: {} {} in {}; {} {} in {}", name_of(rank),
                                       number < block().live.completed ? "was" : "is", to_text(mine),
                                       name_of(drain.peer), number < live->completed ? "was" : "is", to_text(theirs)));
          return;
        }
        // Over a network each look is a few round trips, so of many calls the first and the last are looked at. A
        // difference between them that no header shows leaves a transfer untaken, and the slots run out.
        std::uint64_t next = number + 1;
        if (channels->peer(drain.peer).block == nullptr)
          next = std::max(next, std::min<std::uint64_t>(calls, live->entered) - 1);
        drain.untaken = next < calls ? next + 1 : 0;
      }
      any_untaken |= drain.untaken != 0;
    }
  }
}

std::string CommunicatorState::suspects(const ReadyCall& call, const WaitingOn& waiting, std::vector<Rank>* ranks) {
  const bool message = is_message(call.key.collective);
  const std::string what = waiting.op == StepOp::kWaitData     ? "data"
                           : waiting.op == StepOp::kWaitCredit ? "credit"
                                                               : "progress";
  if (waiting.peer < 0) return "waiting for its own puts to complete";
  const std::string text = format("waiting for {} on channel {}: ", what, waiting.channel);
  std::vector<bool> seen(static_cast<std::size_t>(size));
  seen[static_cast<std::size_t>(rank)] = true;
  Rank at = waiting.peer;
  const std::int64_t now = os::now_ns();
  for (;;) {
    const auto blame = [&](const std::string& why, bool gone = false) {
      if (ranks != nullptr && gone) ranks->push_back(at);
      // One that failed a moment ago has told us before it left its call, and then it is not to blame.
      if (!gone && channels->connected(at)) learn_from(at);
      return text + format("{} {}", name_of(at), why);
    };
    if (seen[static_cast<std::size_t>(at)]) return blame("and others wait for each other in a circle");
    seen[static_cast<std::size_t>(at)] = true;
    const ProcessAddress& address = members[static_cast<std::size_t>(at)].address;
    const std::string trouble = process_trouble(address, engine->address());
    if (!channels->connected(at) && trouble.empty())
      return blame("is waited for by others; this rank has no connection to it");
    const auto live = live_of(at);
    if (!live) return blame(trouble.empty() ? "does not answer" : "does not move: " + trouble, !trouble.empty());
    const std::uint64_t entered = live->entered, completed = live->completed, waits = live->waiting;
    if (!message && entered < calls) {
      std::string why = completed == 0 && entered == 0
                            ? "has not made any call yet"
                            : format("has not entered this call; its last is #{}", entered - 1);
      if (entered > completed) {
        RecordedCall r;
        if (record_of(at, false, entered - 1, &r)) why = format("is still in {}", to_text(r));
      }
      const bool in_message = live->point_to_point > live->point_to_point_completed;
      if (in_message) why += ", it is in a send or receive";
      if (!trouble.empty()) why += "; " + trouble;
      if ((entered == completed && !in_message) || waits == 0 || !trouble.empty()) return blame(why, !trouble.empty());
      // In an earlier call or a message, and waiting there: the chain goes on.
    }
    if (!trouble.empty()) return blame("does not move: " + trouble, true);
    if (!message && completed >= calls) return blame("has ended this call already");
    if (waits == 0) return blame(message ? "has not made the matching call" : "is in this call but does not move");
    // Clocks of other hosts have another beginning.
    if (address.host == engine->address().host && now - live->heartbeat > kStale)
      return blame("does not run: no sign of life while it waits", true);
    const int kind = static_cast<int>(waits >> 56);
    const int channel = static_cast<int>((waits >> 40) & 0xffff);
    const auto next = static_cast<Rank>(waits & 0xffffffffu);
    if (channel >= kChannelIds || next >= size) return blame("shows a state that cannot be");
    // What it waits for has come, but it did not go on: it is the one.
    const std::uint64_t need = live->waiting_need;
    const std::uint64_t word = kind == 1 && need != 0
                                   ? layout.data(channel, next) + ((need - 1) & (layout.slots - 1)) * sizeof(DataLine) +
                                         offsetof(DataLine, count)
                                   : layout.credit(channel, next) + offsetof(CreditLine, count);
    const std::uint64_t have = word_of(at, word).value_or(0);
    if (have >= need && next != rank) return blame("has what it waits for but does not go on");
    if (next == rank) return blame("waits for this rank: the calls of these two ranks do not match");
    at = next;
  }
}

}  // namespace hocket
