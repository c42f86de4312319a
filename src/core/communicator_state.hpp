// SPDX-License-Identifier: Apache-2.0
// core/communicator_state.hpp: the inside of a Communicator. Its functions are spread over files by subject:
//
//   communicator.cpp   the public calls: check arguments, take a turn, run
//   explain.cpp        what users read of it
//   ending.cpp         abort, revoke, finalize, and what is left at the end
//   prepare.cpp        from a call's key to a plan that is ready to run
//   run.cpp            run a ready call: wait, watch, end
//   failure.cpp        errors: found here, told to all ranks, learned from them
//   peek.cpp           what a peer's block shows
//   diagnosis.cpp      mismatches, and who a blocked rank is really waiting for
//   create.cpp         the ways to one: an exchange, an id, the environment
//   membership.cpp     how ranks become a communicator
//   reach.cpp          connections to peers, made at once or on first use
//   regroup.cpp        split, duplicate, grow
//   shrink.cpp         shrink
//   stream.cpp         calls on a stream
//   symmetric.cpp      mem_alloc
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/select.hpp"
#include "core/call.hpp"
#include "core/engine.hpp"
#include "core/progress.hpp"
#include "exec/block.hpp"
#include "exec/channels.hpp"
#include "exec/executor.hpp"
#include "exec/waiter.hpp"
#include "hocket/communicator.hpp"
#include "topo/domains.hpp"

namespace hocket {

/// What a rank tells all others when a communicator is made, and what is kept of it: one for each rank, so it is short.
struct Member {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t algorithms = 0;  ///< how many there are, as a cheap check of equal builds
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t settings_digest = 0;  ///< of the settings that must agree
  std::uint32_t block_page = 0;       ///< of its block in its arena
  std::uint32_t code = 0;             ///< not 0: this rank could not even begin
  std::int32_t host = 0;              ///< number of its host, by lowest rank; filled in by who receives it
  ProcessAddress address;

  std::uint64_t block_offset() const { return std::uint64_t{block_page} * 4096; }
};

/// Worlds up to this size connect all pairs when they are made; larger ones connect whom a plan uses, when it does.
inline constexpr int kEagerRanks = 64;
/// A communicator has at most so many ranks.
inline constexpr int kMostRanks = 1 << 20;

/// A copy of a rank's LiveState (exec/block.hpp).
struct LiveView {
  std::uint64_t entered = 0, completed = 0;
  std::uint64_t waiting = 0, waiting_need = 0;
  std::int64_t waiting_since = 0, heartbeat = 0;
  std::uint64_t point_to_point = 0, point_to_point_completed = 0;
};

/// One phase of making a communicator, for describe().
struct Phase {
  std::string name;
  std::int64_t ns = 0;
};

/// Calls run one after the other, in the order in which they came. A ticket lock whose holder may be a queued stream
/// call.
class Turnstile {
 public:
  std::uint64_t take() { return next_.fetch_add(1, std::memory_order_relaxed); }
  bool is_next(std::uint64_t ticket) const {
    return serving_.load(std::memory_order_acquire) == ticket;
  }  // pairs with leave
  /// Takes the turn only if nobody has it or waits for it.
  bool take_if_free(std::uint64_t* ticket) {
    *ticket = serving_.load(std::memory_order_acquire);
    std::uint64_t next = *ticket;
    return next_.compare_exchange_strong(next, *ticket + 1, std::memory_order_relaxed);
  }
  /// Sleeps until it is this ticket's turn.
  void wait(std::uint64_t ticket);
  /// The next one's turn. True when somebody may be waiting for it.
  bool leave(std::uint64_t ticket);
  bool empty() const { return next_.load(std::memory_order_relaxed) == serving_.load(std::memory_order_acquire); }

 private:
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> serving_{0};
  std::atomic<std::uint32_t> changes_{0};  ///< futex word
  std::atomic<std::uint32_t> sleepers_{0};
};

class LateLook;

struct CommunicatorState {
  CommunicatorState(std::shared_ptr<EngineCore> engine_, const BlockLayout& layout_)
      : engine(std::move(engine_)), layout(layout_) {}
  ~CommunicatorState();
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  // Fixed once made.
  std::shared_ptr<EngineCore> engine;
  Settings settings;
  Rank rank = 0;
  int size = 1;
  std::uint64_t id = 0;
  BlockLayout layout;
  std::uint64_t block_offset = 0;
  std::vector<Member> members;
  std::map<Rank, std::vector<TransportTrial>> trials;  ///< how connected ranks came to be reached, under the turn
  bool made = false;                                   ///< complete: peers may use it
  World world;
  topo::Domains domains;  ///< empty in worlds beyond kEagerRanks
  bool fenced = true;     ///< signals carry a fence of their own (transport/doorbell.hpp)
  WaitPolicy wait_policy;
  std::unique_ptr<Channels> channels;
  std::weak_ptr<CommunicatorState> parent;                 ///< an abort of it ends this one, too
  std::mutex children_mutex;                               ///< guards what follows
  std::vector<std::weak_ptr<CommunicatorState>> children;  ///< whose parent this is, on this rank
  std::vector<Phase> phases;
  std::string meeting;  ///< what the start by a unique id cost, for describe(); else empty
  std::uint64_t loss_subscription = 0;

  // The holder of the turnstile's turn owns these.
  Turnstile turnstile;
  std::unique_ptr<Executor> executor;
  std::uint32_t cpu = 0;                          ///< as shown in the block
  std::uint64_t calls = 0;                        ///< collectives started
  std::uint64_t messages = 0;                     ///< sends and receives started
  std::vector<std::unique_ptr<ReadyCall>> ready;  ///< direct mapped by key
  ReadyCall* last_ready = nullptr;                ///< of the last call, if it is in `ready`: calls like it are common
  std::map<std::uint64_t, std::unique_ptr<ReadyPlan>> plans;
  /// Groups of sends and receives, by whom they go to and come from.
  struct ReadyExchange {
    ReadyPlan plan;
    ReadyCall call;
  };
  std::map<std::pair<std::vector<Rank>, std::vector<Rank>>, std::unique_ptr<ReadyExchange>> exchanges;
  bool any_untaken = false;             ///< some plan's drains name a call
  std::shared_ptr<LateLook> late_look;  ///< looks at them; null until it is needed
  std::vector<std::byte> work;
  std::shared_ptr<Observer> observer;  ///< HOCKET_TRACE, HOCKET_METRICS; else null

  // Symmetric memory: offset in the arena -> bytes. Changed under the turn, read under it.
  std::map<std::uint64_t, std::uint64_t> symmetric;
  std::atomic<bool> may_be_symmetric{false};  ///< there was mem_alloc memory, or any memory is as good (one process)

  // How it ended. `ended` is set once, after `end_status` (release).
  mutable std::mutex end_mutex;
  Status end_status;
  Rank end_rank = -1;       ///< the lost rank, or -1
  bool end_family = false;  ///< communicators made of this one end with it
  std::vector<bool> lost;   ///< ranks that this communicator goes on without, under end_mutex
  std::atomic<bool> ended{false};
  std::atomic<bool> finalized{false};
  std::vector<bool> excluded;       ///< by shrink, under the turn; empty until then
  bool exposed = false;             ///< peers may know the block: it cannot simply be used again
  std::atomic<bool> shrunk{false};  ///< shrink took over: what an excluded rank may still write to is given up for good
  std::atomic<bool> replaced{false};  ///< shrink has made its successor
  std::uint64_t shrinks = 0;          ///< attempts at that, under the turn
  std::mutex tell_mutex;
  std::vector<bool> told;  ///< peers that only puts reach and that were told, under tell_mutex

  BlockHeader& block() const { return channels->block(); }
  CallRecord* records() const {
    return reinterpret_cast<CallRecord*>(engine->arena().base() + block_offset + layout.records_at);
  }
  CallRecord* message_records() const {
    return reinterpret_cast<CallRecord*>(engine->arena().base() + block_offset + layout.point_to_point_at);
  }
  // peek.cpp: what a connected peer's block shows; nothing if it does not answer. Any thread.
  /// Offset in the block and length are multiples of 8.
  /// A peer over a network that does not answer for so long shows nothing.
  static constexpr std::chrono::milliseconds kPatience{300};
  Status fetch(Rank peer, std::uint64_t at, std::span<std::byte> to,
               std::chrono::milliseconds patience = kPatience) const;
  std::optional<LiveView> live_of(Rank peer, std::chrono::milliseconds patience = kPatience) const;
  std::optional<std::uint64_t> word_of(Rank peer, std::uint64_t at) const;
  /// Call `number` of its ring of calls or messages; false if it is not there.
  bool record_of(Rank peer, bool of_messages, std::uint64_t number, RecordedCall* call) const;

  /// "rank 2 (pid 1234 on host7)".
  std::string name_of(Rank peer) const;

  // reach.cpp
  /// The rank can be used from now on. Under the turn, or while the communicator is made. `alone`: it need not call
  /// this for us. Errors name both ranks.
  Status reach(Rank peer, const os::WaitLimits& limits, bool alone);
  /// The same on first use; a failure ends the communicator.
  Status reach_for_call(Rank peer);

  // prepare.cpp
  /// The call made ready; cached. Under the turn.
  Result<ReadyCall*> prepare(const CallKey& key, const Uneven* uneven = nullptr);
  Result<ReadyCall*> prepare_exchange(const CallKey& key, const Uneven& uneven);
  /// Connections and memory that a plan needs, and what else its runs do.
  Status make_ready(ReadyPlan& plan, int channel_base, bool boards);
  void bind(ReadyCall& call, int channel_base);

  // run.cpp
  /// Run on this thread until it ended. Under the turn.
  Status run(ReadyCall& call, const void* input, void* output, const Reduction& reduction, Uneven* uneven = nullptr);
  /// The peer began its call, or sent something, on the core on which this rank is.
  bool shares_core(Rank peer);
  /// Book-keeping before the first step and after the last.
  /// `reduction` must live as long as the call runs.
  void begin(ReadyCall& call, const void* input, void* output, const Reduction& reduction, Uneven* uneven = nullptr);
  Status end(ReadyCall& call, Progress progress);
  /// The number of the call that runs, among those of its kind.
  std::uint64_t number_of(const ReadyCall& call) const;

  // failure.cpp
  /// Ends the communicator here and tells every rank that can be told. The first one counts. Any thread.
  /// `family`: so do those that were made of it.
  void fail(Code code, std::string text, Rank lost_rank = -1, bool family = false);
  /// Ends this one if the one that it was made of was aborted. Any thread; cheap.
  bool ended_with_parent();
  /// After an abort: ends what was made of it, and what was made of that. Others learn of it even if they have let the
  /// parent go.
  void end_children();
  /// Tells every rank that can be told, and was not yet by this one, how the communicator ended.
  void tell_peers();
  /// After a call failed that lets other ranks of this process touch its buffers: none of them does any more when this
  /// returns. Under the turn.
  void await_peers_turns();
  /// Takes over the error with which a peer has ended, if it has: for one that could not tell this rank.
  void learn_from(Rank peer);
  /// Notices what others told. Any thread; one load when there is nothing.
  bool check_ended();
  /// The error that ended it, or ok.
  Status end_error() const;
  /// The same, with the call in which this rank met it.
  Status end_error_in(const ReadyCall& call, const WaitingOn& waiting) const;
  /// The same, for a call that it kept from beginning. Under the turn.
  Status end_error_before(const CallKey& key) const;
  /// The peer has destroyed its communicator in good order: what it owed has come, nothing more will.
  bool has_left(Rank peer) const;
  /// A peer's process is gone. If it had left before, only a call that needs it fails (Watch::tick).
  void on_loss(const ProcessToken& token, const Status& why);
  /// Gives what was told to peers that only puts reach a moment to leave. Under the turn.
  void send_off();

  // late_look.cpp
  /// A call has ended before its drains were taken. Under the turn.
  void note_untaken(const ReadyCall& call);

  // symmetric.cpp
  /// Both buffers of a call lie in mem_alloc memory, or all ranks are in one process. Under the turn.
  bool is_symmetric(const void* input, std::size_t input_bytes, const void* output, std::size_t output_bytes) const;

  // diagnosis.cpp
  /// Which call the peer made instead of this one, if its call board shows it; empty if not.
  std::string find_mismatch(const ReadyCall& call, const WaitingOn& waiting);
  /// The text of a mismatch met in a header: both calls, as far as they are known.
  std::string mismatch_text(const ReadyCall& call, Rank peer, std::uint64_t their_hash);
  std::string pair_mismatch_text(const ReadyCall& call, Rank peer, std::uint64_t their_hash) const;
  /// Compares the calls that ended before what they sent was taken with the calls of those they sent it to, as far as
  /// these are. A difference ends the communicator. Under the turn.
  void look_back();
  /// Who is to blame for the wait, in words. `ranks` gets that rank if its process is stopped, has ended or shows no
  /// life: not one that only waits or is late.
  std::string suspects(const ReadyCall& call, const WaitingOn& waiting, std::vector<Rank>* ranks = nullptr);
  /// This call as its record would tell it.
  RecordedCall describe(const ReadyCall& call) const;
};

/// Watches one call that does not get on: looks for mismatches after 50 ms, warns, times out, keeps the heart beating.
class Watch {
 public:
  explicit Watch(CommunicatorState& state) : state_(state) {}
  void start(ReadyCall& call);
  /// The call moved: the wait is over.
  void moved();
  /// Called between sleeps while nothing moves. False: the communicator has ended.
  bool tick(const WaitingOn& waiting);
  /// When tick() wants to be called again.
  os::Deadline next() const { return os::Deadline::at_ns(next_ns_); }

 private:
  CommunicatorState& state_;
  ReadyCall* call_ = nullptr;
  std::int64_t since_ns_ = 0;  ///< 0: not waiting
  Rank left_ = -1;             ///< awaited, and seen to have left before the last look at the channels
  std::int64_t look_ns_ = 0;   ///< next look at call boards
  std::int64_t warn_ns_ = 0;
  std::int64_t warn_step_ns_ = 0;
  std::int64_t next_ns_ = 0;
};

/// What membership.cpp needs to make a communicator; see Communicator::create.
struct CreateArgs {
  Rank rank = 0;
  int size = 1;
  Exchange exchange;
  Settings settings;
  std::shared_ptr<EngineCore> engine;
  std::uint64_t first_transfer = 0;  ///< tests of wrap-around
  const os::AbortFlag* abort = nullptr;
  std::shared_ptr<CommunicatorState> parent = nullptr;  ///< whose abort is this one's, too; or null
};
Result<std::shared_ptr<CommunicatorState>> make_communicator(CreateArgs args);
/// The same by ids instead of an exchange (core/create.cpp).
Result<Communicator> make_by_ids(std::span<const UniqueId> ids, CreateArgs args);

}  // namespace hocket
