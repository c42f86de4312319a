// SPDX-License-Identifier: Apache-2.0
// symbolic_lane.hpp: the checker's lane policy for the step machine: data is symbolic, and every access is checked.
// Private to the checker; checker.cpp drives it.
#pragma once

#include "base/format.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/dump.hpp"
#include "checker/checker_state.hpp"
#include "exec/step_machine.hpp"

namespace hocket::check {

/// A rank within its current call.
struct RankState {
  int call = 0;
  Shape shape;
  // The caller's memory: two areas; in place, input and output lie in the first.
  Element* area[2] = {};
  std::uint64_t area_used[2] = {};
  Element* input = nullptr;
  Element* output = nullptr;
  std::uint64_t input_length = 0;
  std::uint64_t output_length = 0;
  Element* work = nullptr;
  std::uint64_t work_length = 0;
  int unfinished = 0;
  int started = 0;                            ///< lanes that may run
  std::int32_t entry[kMaxCheckedCalls] = {};  ///< clock of lane 0's thread when the caller entered
  std::vector<std::uint64_t> counts[3];       ///< of the shape: ranks, send row, receive column
  std::vector<std::uint64_t> offsets[3];
};

class SymbolicLane;

/// What all lanes of a run share.
struct Run {
  std::span<const CheckCall> calls;
  CheckOptions options;
  int n = 0;
  int lanes_per_rank = 1;
  int threads = 0;  ///< of lanes; posted puts of thread t are thread threads + t
  std::size_t stride = 0;
  std::uint64_t slot_capacity = 0;
  std::vector<std::int32_t> clocks;  // [thread][stride]
  std::vector<Channel> channels;
  std::vector<std::int32_t> channel_index;  // [id][from][to] -> channels, or -1
  std::vector<Board> boards;
  std::vector<std::int32_t> board_index;  // [id][writer] -> boards, or -1
  std::vector<std::int32_t> snapshots;
  std::vector<SharedRead> shared_reads;
  Arena arena;
  std::vector<RankState> ranks;
  std::vector<SymbolicLane> lanes;  // [rank][lane]
  std::vector<int> ready;
  std::vector<LinkUse> links;
  std::uint64_t steps = 0;
  bool failed = false;
  std::string error;

  const CheckCall& call_of(int rank) const {
    return calls[static_cast<std::size_t>(ranks[static_cast<std::size_t>(rank)].call)];
  }
  std::uint64_t input_token(int rank, std::uint64_t e, int call) const {
    return token(options.seed, static_cast<std::uint64_t>(rank), e, static_cast<std::uint64_t>(call));
  }
  std::int32_t* clock(int thread) { return clocks.data() + static_cast<std::size_t>(thread) * stride; }
  Channel* channel(int id, int from, int to) {
    const std::int32_t at =
        channel_index[(static_cast<std::size_t>(id) * static_cast<std::size_t>(n) + static_cast<std::size_t>(from)) *
                          static_cast<std::size_t>(n) +
                      static_cast<std::size_t>(to)];
    return at < 0 ? nullptr : &channels[static_cast<std::size_t>(at)];
  }
  Board* board(int id, int writer) {
    const std::int32_t at =
        board_index[static_cast<std::size_t>(id) * static_cast<std::size_t>(n) + static_cast<std::size_t>(writer)];
    return at < 0 ? nullptr : &boards[static_cast<std::size_t>(at)];
  }
  std::int32_t* snapshot(Channel& c, bool credit, std::int64_t number) {
    return c.clocks + ((credit ? kSnapshots : 0) + static_cast<std::size_t>(number % kSnapshots)) * stride;
  }
  void join(std::int32_t* into, const std::int32_t* from) const {
    for (std::size_t block = 0; block < stride; block += 8)
      for (std::size_t t = block; t < block + 8; ++t) into[t] = into[t] > from[t] ? into[t] : from[t];
  }
  inline void wake(std::int32_t& waiter);
  void fail(std::string text) {
    if (failed) return;
    failed = true;
    error = std::move(text);
  }
};

/// One lane of one rank.
class SymbolicLane {
 public:
  SymbolicLane(Run& run, int rank, int lane)
      : run_(&run), rank_(rank), lane_(lane), thread_(rank * run.lanes_per_rank + lane), nic_(run.threads + thread_) {}

  void start(const PlanWorld& world, int call, std::vector<std::uint8_t>* ran) {
    plan_ = world.plan(rank_).view();
    program_ = &plan_.lanes[lane_];
    call_ = call;
    packet_ = run_->options.protocol == Protocol::kPacket && world.packets();
    posted_ = run_->options.posted && world.posted();
    ran_ = ran == nullptr ? nullptr : ran->data() + world.step_base(rank_) + program_->first;
    state = {};
    done = false;
  }

  int rank() const { return rank_; }
  int lane() const { return lane_; }
  int thread() const { return thread_; }
  const LaneProgram& program() const { return *program_; }
  const PlanView& plan() const { return plan_; }

  /// "rank 3, lane 0, step 12 (wait data ch0 from 2, a[5])"
  std::string where() const {
    const RankState& r = run_->ranks[static_cast<std::size_t>(rank_)];
    std::string text = format("call {} ({} {}), rank {}, lane {}", r.call, to_string(plan_.header->collective),
                              plan_.header->algorithm, rank_, lane_);
    if (state.pc < program_->count) {
      text += format(", step {} ({}", state.pc, step_text(plan_, *program_, state.pc));
      if (state.depth > 0)
        text +=
            format("; i = {}, j = {}, tile {}", state.i, state.j,
                   state.round * static_cast<std::uint64_t>(state.round_tiles) + static_cast<std::uint64_t>(state.k));
      text += ")";
    } else {
      text += ", at its end";
    }
    return text;
  }

  template <class... Args>
  void fail(fmt::format_string<Args...> text, Args&&... args) {
    if (!run_->failed) run_->fail(format("{}: {}", where(), hocket::format(text, std::forward<Args>(args)...)));
  }

  // What the step machine asks for.

  bool failed() const { return run_->failed; }

  bool data_ready(std::uint16_t id, std::int32_t peer, std::int32_t bound) {
    if (run_->failed) return false;
    Channel& c = *run_->channel(id, peer, rank_);
    const std::int64_t needed = c.received + bound;
    if (c.sent < needed) {
      c.data_waiter = thread_;
      return false;
    }
    if (needed > c.seen_data) c.seen_data = needed;
    if (needed >= 0 && c.data_number[needed % kSnapshots] == needed)
      run_->join(run_->clock(thread_), run_->snapshot(c, false, needed));
    note();
    return true;
  }

  bool credit_ready(std::uint16_t id, std::int32_t peer, std::int32_t bound) {
    if (run_->failed) return false;
    Channel& c = *run_->channel(id, rank_, peer);
    const std::int64_t needed = c.sent - bound;
    if (c.received < needed) {
      c.credit_waiter = thread_;
      return false;
    }
    if (needed > c.seen_credit) c.seen_credit = needed;
    if (needed >= 0 && c.credit_number[needed % kSnapshots] == needed)
      run_->join(run_->clock(thread_), run_->snapshot(c, true, needed));
    if (posted_) {
      puts_.credited(id, peer, c.seen_credit);
      refresh();
    }
    note();
    return true;
  }

  void signal_data(std::uint16_t id, std::int32_t peer, const Step& step) {
    Channel& c = *run_->channel(id, rank_, peer);
    if (c.sent - c.seen_credit > run_->options.slots - 1)
      fail("sends transfer {} of channel {} to rank {} but has seen only {} credits: more than {} would be in flight",
           c.sent, id, peer, c.seen_credit, run_->options.slots);
    ++c.sent;
    if (!uncovered_.empty()) cover(id, peer);
    for (int kind = 0; kind < 2; ++kind)
      if ((step.grant & (1 << kind)) != 0 && c.data_grant_call[kind] != call_) {
        c.data_grant_call[kind] = call_;
        c.data_grant[kind] = c.sent;
      }
    // In the packet protocol the flags in the slot are the signal; they carry the memory as of the Move.
    if (!packet_ || c.data_number[c.sent % kSnapshots] != c.sent) publish(c, false, c.sent, id, peer);
    if (call_ == 0) ++link(rank_, peer).data_signals;
    note();
    run_->wake(c.data_waiter);
  }

  void signal_credit(std::uint16_t id, std::int32_t peer, const Step& step) {
    Channel& c = *run_->channel(id, peer, rank_);
    if (c.received + 1 - c.seen_data > run_->options.slots)
      fail("credits transfer {} of channel {} from rank {} but has seen only {}: more than {} grants ahead", c.received,
           id, peer, c.seen_data, run_->options.slots);
    const Slot& slot = c.slots[c.received % run_->options.slots];
    if (!c.board && slot.tag == static_cast<std::int32_t>(c.received + 1) && slot.written != slot.read)
      fail("credits transfer {} of channel {} from rank {} but read only {} of the {} elements in its slot", c.received,
           id, peer, slot.read, slot.written);
    if (posted_ && puts_.slot_busy(id, peer, c.received))
      fail("credits transfer {} of channel {} from rank {} while a posted put may still read its slot", c.received, id,
           peer);
    ++c.received;
    for (int kind = 0; kind < 2; ++kind)
      if ((step.grant & (1 << kind)) != 0 && c.credit_grant_call[kind] != call_) {
        c.credit_grant_call[kind] = call_;
        c.credit_grant[kind] = c.received;
      }
    std::int32_t* clock = run_->clock(thread_);
    std::memcpy(run_->snapshot(c, true, c.received), clock, run_->stride * sizeof *clock);
    c.credit_number[c.received % kSnapshots] = c.received;
    ++clock[thread_];
    if (call_ == 0) ++link(peer, rank_).credit_signals;
    note();
    run_->wake(c.credit_waiter);
  }

  bool completed(const Step& step, std::int32_t peer) {
    if (!posted_) return true;
    if (step.completion == kAllCompletion) {
      puts_.complete_all();
    } else {
      puts_.complete_slot(step.channel, peer, run_->channel(step.channel, peer, rank_)->received);
    }
    refresh();
    return true;
  }

  bool drained() {
    puts_.complete_all();
    if (posted_) refresh();
    return true;
  }

  void begin_move(std::uint64_t length, const Step& step) {
    length_ = length;
    step_ = &step;
    sources_.clear();
    destinations_.clear();
  }
  void source(const SpanAt& span) { sources_.push_back({span}); }
  void destination(const SpanAt& span) { destinations_.push_back({span}); }

  bool end_move() {
    if (run_->failed) return false;
    const bool post = posted_ && post_puts();
    for (Access& a : sources_)
      if (!locate(a, false)) return false;
    for (Access& a : destinations_)
      if (!locate(a, true)) return false;
    if (length_ != 0) {
      if (!no_overlap()) return false;
      values_.resize(length_);
      read_thread_ = post ? nic_ : thread_;
      read_clock_ = post ? posted_number_ : run_->clock(thread_)[thread_];
      for (std::size_t s = 0; s < sources_.size(); ++s)
        if (!(sources_[s].slot != nullptr ? read_slot(sources_[s], s == 0) : read_memory(sources_[s], s == 0)))
          return false;
      if (sources_.size() > 1)
        for (Value& v : values_) v.tree = moved_tree(v.tree);
      if (step_->finish)
        for (Value& v : values_) v = {finished(v.sum), finished_tree(v.tree)};
      for (Access& a : destinations_)
        if (!(a.slot != nullptr ? write_slot(a) : write_memory(a))) return false;
    }
    if (packet_)
      for (Access& a : destinations_)
        if (a.at.kind == SpanKind::kSlotOut) publish(*a.channel, false, a.channel->sent + 1, a.at.channel, a.at.peer);
    note();
    return true;
  }

  /// At the lane's end.
  void check_end() {
    if (posted_ && !puts_.idle()) fail("the lane ends while its posted puts may still read their sources");
    if (!uncovered_.empty())
      fail("a put into the buffer of rank {} is not followed by a signal", uncovered_.front().peer);
  }
  void reset(int threads) {
    nic_ = threads + thread_;
    puts_.clear();
    uncovered_.clear();
    done = true;
    queued = false;
  }

  LaneState state;
  bool done = true;
  bool queued = false;

 private:
  struct Access {
    SpanAt at;
    Element* first = nullptr;
    Channel* channel = nullptr;
    Slot* slot = nullptr;
    std::int32_t tag = 0;
    int owner = 0;  ///< rank of a buffer
  };
  struct Uncovered {
    Element* first;
    std::uint64_t length;
    std::uint16_t channel;
    std::int32_t peer;
  };

  void note() {
    ++run_->steps;
    if (ran_ != nullptr) ran_[state.pc] = 1;
  }

  LinkUse& link(int from, int to) {
    return run_
        ->links[static_cast<std::size_t>(from) * static_cast<std::size_t>(run_->n) + static_cast<std::size_t>(to)];
  }

  /// What I did so far is visible to whoever sees `number` of this channel.
  void publish(Channel& c, bool credit, std::int64_t number, std::uint16_t id, std::int32_t peer) {
    std::int32_t* clock = run_->clock(thread_);
    std::int32_t* snapshot = run_->snapshot(c, credit, number);
    std::memcpy(snapshot, clock, run_->stride * sizeof *clock);
    if (posted_ && peer != rank_) snapshot[nic_] = std::max(snapshot[nic_], puts_.complete_at(id, peer));
    c.data_number[number % kSnapshots] = number;
    ++clock[thread_];
  }

  /// A signal of this channel follows: what was put into the peer's buffers through it is written now.
  void cover(std::uint16_t id, std::int32_t peer) {
    const std::int32_t now = run_->clock(thread_)[thread_];
    std::erase_if(uncovered_, [&](const Uncovered& put) {
      if (put.channel != id || put.peer != peer) return false;
      for (std::uint64_t e = 0; e < put.length; ++e) {
        put.first[e].write_thread = static_cast<std::uint16_t>(thread_);
        put.first[e].write_clock = now;
      }
      return true;
    });
  }

  void refresh() {
    std::int32_t& mine = run_->clock(thread_)[nic_];
    mine = std::max(mine, puts_.complete());
  }

  /// A Move with a remote destination is posted: note its puts. False when all destinations are my own memory.
  bool post_puts() {
    bool remote = false;
    for (const Access& a : destinations_)
      remote |= (a.at.kind == SpanKind::kSlotOut || a.at.kind == SpanKind::kPeerOutput) && a.at.peer != rank_;
    if (!remote) return false;
    posted_number_ = puts_.post();
    for (const Access& a : destinations_) {
      if (a.at.peer == rank_) continue;
      if (a.at.kind == SpanKind::kSlotOut)
        puts_.put(a.at.channel, a.at.peer, run_->channel(a.at.channel, rank_, a.at.peer)->sent);
      else if (a.at.kind == SpanKind::kPeerOutput)
        puts_.put(a.at.channel, a.at.peer, PostedPuts::kDirect);
    }
    for (const Access& a : sources_)
      if (a.at.kind == SpanKind::kSlotIn)
        puts_.reads_slot(a.at.channel, a.at.peer, run_->channel(a.at.channel, a.at.peer, rank_)->received);
    return true;
  }

  bool locate(Access& a, bool destination) {
    switch (a.at.kind) {
      case SpanKind::kInput:
      case SpanKind::kPeerInput: return locate_buffer(a, destination, true);
      case SpanKind::kOutput:
      case SpanKind::kPeerOutput: return locate_buffer(a, destination, false);
      case SpanKind::kWork: {
        const RankState& r = run_->ranks[static_cast<std::size_t>(rank_)];
        a.owner = rank_;
        if (a.at.offset + length_ > r.work_length) {
          fail("scratch has {} elements, not {}", r.work_length, a.at.offset + length_);
          return false;
        }
        a.first = r.work + a.at.offset;
        return true;
      }
      default: return locate_slot(a, destination);
    }
  }

  bool locate_buffer(Access& a, bool destination, bool input) {
    const bool peer = a.at.kind == SpanKind::kPeerInput || a.at.kind == SpanKind::kPeerOutput;
    a.owner = peer ? a.at.peer : rank_;
    const RankState& r = run_->ranks[static_cast<std::size_t>(a.owner)];
    const char* name = input ? "input" : "output";
    if (input && destination) {
      fail("writes the input");
      return false;
    }
    if (peer && (!granted(a, input ? 0 : 1) || r.call != call_)) {
      fail("uses the {} of rank {} without having seen its grant", name, a.owner);
      return false;
    }
    const std::uint64_t length = input ? r.input_length : r.output_length;
    if (length_ != 0 && (a.at.offset > length || length_ > length - a.at.offset)) {
      fail("uses elements {} to {} of the {} of rank {}, which has {}", a.at.offset, a.at.offset + length_, name,
           a.owner, length);
      return false;
    }
    a.first = (input ? r.input : r.output) + (length_ == 0 ? 0 : a.at.offset);
    if (peer && call_ == 0) (destination ? link(rank_, a.owner) : link(a.owner, rank_)).elements += length_;
    return true;
  }

  /// Kind 0: input, 1: output. A grant is on a data signal of the peer or on a credit signal of the peer.
  bool granted(const Access& a, int kind) {
    const Channel* in = run_->channel(a.at.channel, a.at.peer, rank_);
    if (in != nullptr && in->data_grant_call[kind] == call_ && in->seen_data >= in->data_grant[kind]) return true;
    const Channel* out = run_->channel(a.at.channel, rank_, a.at.peer);
    return out != nullptr && out->credit_grant_call[kind] == call_ && out->seen_credit >= out->credit_grant[kind];
  }

  bool locate_slot(Access& a, bool destination) {
    const bool board = a.at.kind == SpanKind::kBoardIn || a.at.kind == SpanKind::kBoardOut;
    const int slots = run_->options.slots;
    if (!destination) {
      Channel& c = *run_->channel(a.at.channel, a.at.peer, rank_);
      const std::int64_t q = c.received;
      if (c.seen_data <= q) {
        fail("reads transfer {} of channel {} from rank {} without having waited for it", q, c.id, c.from);
        return false;
      }
      a.channel = &c;
      a.slot = board ? &run_->board(a.at.channel, a.at.peer)->slots[q % slots] : &c.slots[q % slots];
      a.tag = static_cast<std::int32_t>(q + 1);
      if (length_ != 0 && (a.slot->elements == nullptr || a.slot->tag != a.tag)) {
        fail("reads transfer {} of channel {} from rank {}, but its slot holds transfer {}", q, c.id, c.from,
             a.slot->tag - 1);
        return false;
      }
    } else {
      Channel& c = *run_->channel(a.at.channel, rank_, a.at.peer);
      a.channel = &c;
      Board* b = board ? run_->board(a.at.channel, rank_) : nullptr;
      if (b != nullptr) {
        for (const std::int32_t reader : b->channels) {
          const Channel& to = run_->channels[static_cast<std::size_t>(reader)];
          if (to.sent != c.sent) {
            fail("the readers of board {} are out of step: rank {} is at transfer {}, rank {} at {}", c.id, c.to,
                 c.sent, to.to, to.sent);
            return false;
          }
          if (!may_write(to)) return false;
        }
      } else if (!may_write(c)) {
        return false;
      }
      a.slot = b != nullptr ? &b->slots[c.sent % slots] : &c.slots[c.sent % slots];
      a.tag = static_cast<std::int32_t>(c.sent + 1);
      if (a.slot->elements == nullptr && length_ != 0) a.slot->elements = run_->arena.take(run_->slot_capacity);
      if (a.slot->tag != a.tag) {
        a.slot->tag = a.tag;
        a.slot->written = a.slot->read = 0;
      }
      if (call_ == 0) {
        if (b == nullptr) link(rank_, a.at.peer).elements += length_;
      }
    }
    if (board && !destination && call_ == 0) link(a.at.peer, rank_).elements += length_;
    if (length_ != 0 && a.at.offset + length_ > run_->slot_capacity) {
      fail("piece {} does not fit into the slot", a.at.index);
      return false;
    }
    a.first = a.slot->elements + (length_ == 0 ? 0 : a.at.offset);
    return true;
  }

  bool may_write(const Channel& c) {
    if (c.sent - c.seen_credit > run_->options.slots - 1) {
      fail(
          "writes the slot of transfer {} of channel {} to rank {} but has seen only {} credits: the slot may not be "
          "free",
          c.sent, c.id, c.to, c.seen_credit);
      return false;
    }
    if (c.received > c.sent) {
      fail("writes the slot of transfer {} of channel {} to rank {}, which credited it before it came", c.sent, c.id,
           c.to);
      return false;
    }
    return true;
  }

  bool no_overlap() {
    for (std::size_t d = 0; d < destinations_.size(); ++d) {
      const Access& a = destinations_[d];
      for (const Access& s : sources_)
        if (a.first != s.first && a.first < s.first + length_ && s.first < a.first + length_) {
          fail("a destination overlaps a source");
          return false;
        }
      for (std::size_t e = 0; e < d; ++e)
        if (a.first < destinations_[e].first + length_ && destinations_[e].first < a.first + length_) {
          fail("two destinations overlap");
          return false;
        }
    }
    return true;
  }

  void add(std::size_t e, const Value& v, bool first) {
    values_[e] = first ? v : Value{values_[e].sum + v.sum, reduced(values_[e].tree, v.tree)};
  }

  bool read_slot(Access& a, bool first) {
    const bool board = a.at.kind == SpanKind::kBoardIn;
    for (std::uint64_t e = 0; e < length_; ++e) {
      Element& x = a.first[e];
      if (x.write_clock != a.tag) {
        fail("element {} of the slot of channel {} from rank {} was not written by transfer {}", a.at.offset + e,
             a.at.channel, a.at.peer, a.tag - 1);
        return false;
      }
      if (!board && x.read_clock != a.tag) {
        x.read_clock = a.tag;
        ++a.slot->read;
      }
      add(e, x.value, first);
    }
    return true;
  }

  bool write_slot(Access& a) {
    for (std::uint64_t e = 0; e < length_; ++e) {
      Element& x = a.first[e];
      if (x.write_clock == a.tag) {
        fail("element {} of the slot of channel {} to rank {} is written twice in transfer {}", a.at.offset + e,
             a.at.channel, a.at.peer, a.tag - 1);
        return false;
      }
      x.write_clock = a.tag;
      x.value = values_[e];
    }
    a.slot->written += static_cast<std::uint32_t>(length_);
    return true;
  }

  /// "element 5 of the output of rank 2"
  std::string element_text(const Access& a, std::uint64_t e) const {
    const bool input = a.at.kind == SpanKind::kInput || a.at.kind == SpanKind::kPeerInput;
    return format("element {} of the {} of rank {}", a.at.offset + e,
                  a.at.kind == SpanKind::kWork ? "scratch"
                  : input                      ? "input"
                                               : "output",
                  a.owner);
  }
  std::string thread_text(int thread) const {
    const bool put = thread >= run_->threads;
    if (put) thread -= run_->threads;
    return format("{}lane {} of rank {}", put ? "a posted put of " : "", thread % run_->lanes_per_rank,
                  thread / run_->lanes_per_rank);
  }

  bool read_memory(Access& a, bool first) {
    const std::int32_t* clock = run_->clock(thread_);
    for (std::uint64_t e = 0; e < length_; ++e) {
      Element& x = a.first[e];
      if (x.write_clock > clock[x.write_thread]) {
        fail("reads {} without being ordered after {} (or its caller), which wrote it", element_text(a, e),
             thread_text(x.write_thread));
        return false;
      }
      if (x.read_thread == kShared) {
        share(x);
      } else if (x.read_thread == read_thread_ || x.read_clock <= clock[x.read_thread]) {
        x.read_thread = static_cast<std::uint16_t>(read_thread_);
        x.read_clock = read_clock_;
      } else {
        run_->shared_reads.push_back({x.read_clock, -1, x.read_thread});
        x.read_thread = kShared;
        x.read_clock = static_cast<std::int32_t>(run_->shared_reads.size()) - 1;
        share(x);
      }
      add(e, x.value, first);
    }
    return true;
  }

  void share(Element& x) {
    std::vector<SharedRead>& reads = run_->shared_reads;
    for (std::int32_t at = x.read_clock; at >= 0; at = reads[static_cast<std::size_t>(at)].next) {
      SharedRead& read = reads[static_cast<std::size_t>(at)];
      if (read.thread == read_thread_) {
        read.clock = read_clock_;
        return;
      }
    }
    reads.push_back({read_clock_, x.read_clock, static_cast<std::uint16_t>(read_thread_)});
    x.read_clock = static_cast<std::int32_t>(reads.size()) - 1;
  }

 public:
  /// The thread of a read that `clock` is not ordered after, or -1.
  static int unordered_read(const Run& run, const Element& x, const std::int32_t* clock) {
    if (x.read_thread != kShared) return x.read_clock > clock[x.read_thread] ? x.read_thread : -1;
    for (std::int32_t at = x.read_clock; at >= 0;) {
      const SharedRead& read = run.shared_reads[static_cast<std::size_t>(at)];
      if (read.clock > clock[read.thread]) return read.thread;
      at = read.next;
    }
    return -1;
  }

 private:
  bool write_memory(Access& a) {
    const std::int32_t* clock = run_->clock(thread_);
    // A put to a peer's buffer is there for whoever sees the channel's next signal, and for nobody else before.
    const bool put = posted_ && a.owner != rank_;
    const int thread = put ? nic_ : thread_;
    const std::int32_t at = put ? INT32_MAX : clock[thread_];
    if (put) uncovered_.push_back({a.first, length_, a.at.channel, a.at.peer});
    for (std::uint64_t e = 0; e < length_; ++e) {
      Element& x = a.first[e];
      if (x.write_clock > clock[x.write_thread]) {
        fail("writes {} without being ordered after {} (or its caller), which wrote it", element_text(a, e),
             thread_text(x.write_thread));
        return false;
      }
      // This Move's own read of a source that is also its destination comes first.
      if (const int reader = unordered_read(*run_, x, clock);
          reader >= 0 && !(x.read_thread == read_thread_ && x.read_clock == read_clock_)) {
        fail("writes {} without being ordered after {}, which reads it", element_text(a, e), thread_text(reader));
        return false;
      }
      x.value = values_[e];
      x.write_thread = static_cast<std::uint16_t>(thread);
      x.write_clock = at;
      // A posted read of the very element that this Move writes stays open.
      if (!(x.read_thread == nic_ && x.read_clock == read_clock_ && read_thread_ == nic_)) {
        x.read_thread = 0;
        x.read_clock = 0;
      }
    }
    return true;
  }

  Run* run_;
  int rank_;
  int lane_;
  int thread_;
  int nic_;
  PlanView plan_;
  const LaneProgram* program_ = nullptr;
  int call_ = 0;
  bool packet_ = false;
  bool posted_ = false;
  std::uint8_t* ran_ = nullptr;
  PostedPuts puts_;
  // The Move being made.
  std::uint64_t length_ = 0;
  const Step* step_ = nullptr;
  std::vector<Access> sources_;
  std::vector<Access> destinations_;
  std::vector<Value> values_;
  std::int32_t posted_number_ = 0;
  std::vector<Uncovered> uncovered_;  // posted into peers' buffers, and no signal of the channel since
  int read_thread_ = 0;
  std::int32_t read_clock_ = 0;
};

inline void Run::wake(std::int32_t& waiter) {
  if (waiter < 0) return;
  SymbolicLane& lane = lanes[static_cast<std::size_t>(waiter)];
  waiter = -1;
  if (lane.queued) return;
  lane.queued = true;
  ready.push_back(lane.thread());
}

}  // namespace hocket::check
