// SPDX-License-Identifier: Apache-2.0
// support/two_sided.hpp: a network that can only send and receive, for tests of the seam (docs/writing-a-transport.md).
//
// TwoSidedWire is the network between two processes (engines of one program): send(tag, bytes) and
// post_receive(tag, place). A message lands when a receive with its tag was posted, each tag's in order, but different
// tags complete in any order, drawn at random. TwoSidedEndpoint is an Endpoint over it that never writes to memory that
// it was not told of: a put at the start of a landing becomes a message for a receive that expect() posted; any other
// put, and each signal, a message with a header, which the receiver copies. A signal names the landings that were put
// to since the one before, and how often they were in all; it takes effect when that has come. (A mere number of
// messages would not do: a later one may come first.) A signal after all names all landings and all keys so.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "base/status.hpp"
#include "transport/arena.hpp"
#include "transport/landing.hpp"
#include "transport/transport.hpp"

namespace hocket::test {

/// One direction of the network. Any thread.
class TwoSidedWire {
 public:
  using Tag = std::pair<std::uint64_t, std::uint64_t>;  // key and landing; landing ~0: with a header

  explicit TwoSidedWire(std::uint64_t seed) : random_(seed) {}

  void send(const Tag& tag, std::vector<std::byte> bytes) {
    const std::scoped_lock lock(mutex_);
    messages_[tag].push_back(
        {std::move(bytes), Clock::now() + (is_control(tag.first) ? std::chrono::microseconds(0) : lag.load())});
  }
  void post_receive(const Tag& tag, std::byte* place, std::size_t most) {
    const std::scoped_lock lock(mutex_);
    posted_[tag].push_back({place, most});
  }
  /// Completes a few of those that can, at random. `place` null in what is returned: the bytes are in `bytes`.
  struct Landed {
    Tag tag;
    std::byte* place = nullptr;
    std::vector<std::byte> bytes;
    bool fits = true;
  };
  std::vector<Landed> complete() {
    const std::scoped_lock lock(mutex_);
    std::vector<Landed> landed;
    std::vector<Tag> ready;
    for (auto& [tag, queue] : messages_) {
      if (!queue.empty() && queue.front().due <= Clock::now() &&
          (tag.second == ~std::uint64_t{0} || !posted_[tag].empty()))
        ready.push_back(tag);
    }
    std::shuffle(ready.begin(), ready.end(), random_);
    ready.resize(std::min<std::size_t>(ready.size(), 1 + random_() % 3));
    for (const Tag& tag : ready) {
      Landed one{.tag = tag, .place = nullptr, .bytes = std::move(messages_[tag].front().bytes), .fits = true};
      messages_[tag].pop_front();
      if (tag.second != ~std::uint64_t{0}) {
        const auto [place, most] = posted_[tag].front();
        posted_[tag].pop_front();
        one.place = place;
        one.fits = one.bytes.size() <= most;
        if (one.fits && !one.bytes.empty()) std::memcpy(place, one.bytes.data(), one.bytes.size());
      }
      landed.push_back(std::move(one));
    }
    return landed;
  }

  /// What belongs to no channel: how a communicator ended.
  static bool is_control(std::uint64_t key) { return (key & 0x80) != 0; }
  /// What belongs to a channel arrives so much later than the rest.
  std::atomic<std::chrono::microseconds> lag{std::chrono::microseconds(0)};

 private:
  using Clock = std::chrono::steady_clock;
  struct Message {
    std::vector<std::byte> bytes;
    Clock::time_point due;
  };
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<Tag, std::deque<Message>> messages_;
  std::map<Tag, std::deque<std::pair<std::byte*, std::size_t>>> posted_;
};

/// All wires of a test, one for each ordered pair of processes.
class TwoSidedNetwork {
 public:
  explicit TwoSidedNetwork(std::uint64_t seed) : seed_(seed) {}
  TwoSidedWire& between(const ProcessToken& from, const ProcessToken& to) {
    const std::scoped_lock lock(mutex_);
    auto& wire = wires_[{from, to}];
    if (!wire) wire = std::make_unique<TwoSidedWire>(seed_ + wires_.size());
    return *wire;
  }
  void set_lag(std::chrono::microseconds lag) {
    const std::scoped_lock lock(mutex_);
    for (auto& [ends, wire] : wires_) wire->lag = lag;
  }
  std::atomic<std::uint64_t> direct{0};  ///< puts that landed by a posted receive
  std::atomic<std::uint64_t> copied{0};  ///< puts that came with a header

 private:
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::map<std::pair<ProcessToken, ProcessToken>, std::unique_ptr<TwoSidedWire>> wires_;
};

class TwoSidedEndpoint final : public Endpoint {
 public:
  /// `inner` only answers get() and knows when the peer is lost.
  TwoSidedEndpoint(TwoSidedNetwork& network, std::shared_ptr<Endpoint> inner, Arena& arena, const ProcessToken& self,
                   const ProcessAddress& peer)
      : network_(network),
        inner_(std::move(inner)),
        arena_(arena),
        peer_bytes_(peer.arena_bytes),
        out_(network.between(self, peer.token)),
        in_(network.between(peer.token, self)) {}

  std::string_view transport() const noexcept override { return "two-sided"; }
  std::byte* base() const noexcept override { return nullptr; }

  Result<std::uint64_t> put(const Put& put) override {
    HOCKET_TRY(check_put(put, peer_bytes_));
    const std::scoped_lock lock(mutex_);
    posted_.push_back({true, put, {}, {}});
    return ++accepted_;
  }
  Result<std::uint64_t> signal(const Signal& signal) override {
    HOCKET_TRY(check_signal(signal, peer_bytes_));
    const std::scoped_lock lock(mutex_);
    posted_.push_back({false, {}, signal, {signal.line.begin(), signal.line.end()}});
    return ++accepted_;
  }
  std::uint64_t completed() noexcept override {
    const std::scoped_lock lock(mutex_);
    return accepted_ - posted_.size();
  }
  bool idle() const noexcept override {
    const std::scoped_lock lock(mutex_);
    return posted_.empty();
  }
  bool moves_alone() const noexcept override { return false; }
  Status error() const override { return inner_->error(); }
  Status get(std::uint64_t offset, std::span<std::byte> to, const os::WaitLimits& limits) override {
    return inner_->get(offset, to, limits);
  }
  void cancel(const void* owner) noexcept override {
    const std::scoped_lock lock(mutex_);
    for (Operation& o : posted_)
      if ((o.is_put ? o.put.owner : o.signal.owner) == owner) o = {false, {}, {}, {}};
  }

  Status expect(ChannelKey channel, std::uint64_t offset, std::uint64_t bytes) override {
    const std::scoped_lock lock(mutex_);
    const TwoSidedWire::Tag tag(static_cast<std::uint64_t>(channel), offset);
    if (!open_.insert(tag).second) return {};  // it waits there unused
    in_.post_receive(tag, arena_.base() + offset, bytes);
    return {};
  }

  Status progress() override {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {};
    HOCKET_TRY(inner_->error());
    // A put's source is read now, not when it was posted.
    for (; !posted_.empty(); posted_.pop_front()) {
      const Operation& o = posted_.front();
      if (o.is_put) {
        if (o.put.bytes == 0) continue;
        const auto key = static_cast<std::uint64_t>(o.put.channel);
        if (o.put.offset == o.put.landing && sends_direct(key)) {
          const TwoSidedWire::Tag tag(key, o.put.landing);
          since_signal_[key][o.put.landing] = ++sent_[tag];
          out_.send({key, o.put.landing}, {o.put.source, o.put.source + o.put.bytes});
        } else {
          send_with_header(key, {kPutHeader, o.put.offset, 0, 0}, {}, {o.put.source, o.put.bytes});
        }
      } else if (!o.line.empty()) {
        const auto key = static_cast<std::uint64_t>(o.signal.channel);
        std::vector<std::uint64_t> needs;
        for (const auto& [landing, times] : since_signal_[key]) needs.insert(needs.end(), {key, landing, times});
        if (o.signal.after_all)
          for (const auto& [tag, times] : sent_) needs.insert(needs.end(), {tag.first, tag.second, times});
        since_signal_[key].clear();
        send_with_header(key, {kSignalHeader, o.signal.offset, o.signal.bell, needs.size()}, needs, o.line);
      }
    }
    for (TwoSidedWire::Landed& landed : in_.complete()) {
      const std::uint64_t key = landed.tag.first;
      if (landed.place != nullptr) {
        if (!landed.fits) return hocket::error(Code::kInternal, "a message is larger than what was expected for it");
        open_.erase(landed.tag);
        ++arrived_[landed.tag];
        ++network_.direct;
        continue;
      }
      Header header;
      std::memcpy(&header, landed.bytes.data(), sizeof header);
      std::vector<std::uint64_t> needs(header[3]);
      if (!needs.empty()) std::memcpy(needs.data(), landed.bytes.data() + sizeof header, needs.size() * 8);
      const auto body = std::span<const std::byte>(landed.bytes).subspan(sizeof header + needs.size() * 8);
      if (header[0] == kPutHeader) {
        if (!body.empty()) std::memcpy(arena_.base() + header[1], body.data(), body.size());
        ++arrived_[landed.tag];
        ++network_.copied;
      } else {
        held_[key].push_back({header, std::move(needs), {body.begin(), body.end()}});
      }
    }
    for (auto& [key, queue] : held_) {
      for (; !queue.empty() && has_come(queue.front().needs); queue.pop_front()) {
        apply_signal(arena_.base(), queue.front().line, queue.front().header[1], queue.front().header[2]);
        ++arrived_[{key, ~std::uint64_t{0}}];
      }
    }
    return {};
  }

 private:
  using Header = std::array<std::uint64_t, 4>;  // kind, offset, bell, how many numbers of landings follow
  struct Held {
    Header header;
    std::vector<std::uint64_t> needs;  // key, landing, times; key, landing, times; …
    std::vector<std::byte> line;
  };
  static constexpr std::uint64_t kPutHeader = 1, kSignalHeader = 2;
  struct Operation {
    bool is_put;
    Put put;
    Signal signal;
    std::vector<std::byte> line;
  };

  // What belongs to no channel has no landings.
  static bool sends_direct(std::uint64_t key) { return !TwoSidedWire::is_control(key); }

  bool has_come(const std::vector<std::uint64_t>& needs) {
    for (std::size_t i = 0; i < needs.size(); i += 3)
      if (arrived_[{needs[i], needs[i + 1]}] < needs[i + 2]) return false;
    return true;
  }

  void send_with_header(std::uint64_t key, const Header& header, std::span<const std::uint64_t> needs,
                        std::span<const std::byte> body) {
    std::vector<std::byte> message(sizeof header);
    std::memcpy(message.data(), &header, sizeof header);
    const auto more = std::as_bytes(needs);
    message.insert(message.end(), more.begin(), more.end());
    message.insert(message.end(), body.begin(), body.end());
    const TwoSidedWire::Tag tag(key, ~std::uint64_t{0});
    ++sent_[tag];
    out_.send(tag, std::move(message));
  }

  TwoSidedNetwork& network_;
  const std::shared_ptr<Endpoint> inner_;
  Arena& arena_;
  const std::uint64_t peer_bytes_;
  TwoSidedWire& out_;
  TwoSidedWire& in_;
  mutable std::mutex mutex_;  // guards what follows
  std::deque<Operation> posted_;
  std::uint64_t accepted_ = 0;
  std::set<TwoSidedWire::Tag> open_;
  std::map<TwoSidedWire::Tag, std::uint64_t> sent_, arrived_;  // messages; those with a header when they took effect
  std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> since_signal_;
  std::map<std::uint64_t, std::deque<Held>> held_;
};

}  // namespace hocket::test
