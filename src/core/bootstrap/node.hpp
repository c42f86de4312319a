// SPDX-License-Identifier: Apache-2.0
// node.hpp: what the ranks of one process on one host share of a meeting.
//
// One thread serves all connections and never waits for a single one; a second one, while it is needed, connects. Ranks
// leave what they have in Local entries and sleep. The process that gets the host's name first leads: members send it
// their parts, and it works with the leaders of other hosts.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/os/net_socket.hpp"
#include "base/os/process.hpp"
#include "base/os/socket.hpp"
#include "base/os/thread.hpp"
#include "base/secret.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/messages.hpp"

namespace hocket {

class Node {
 public:
  /// The one of this process for these roots and this host; made on first use.
  static Result<std::shared_ptr<Node>> of(std::span<const UniqueId> roots, const Settings& settings);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Any thread. Each waits until `limits`, and then a little for the reason.
  Status join(Rank rank, int size, const os::WaitLimits& limits);
  Status exchange(Rank rank, std::span<const std::byte> mine, std::span<std::byte> all, const os::WaitLimits& limits);
  BootstrapCounters counters() const;

 private:
  // A rank of this process.
  struct Local {
    Rank rank = 0;
    int size = 0;
    bool announced = false;
    bool waiting = false;  // for the exchange under way
    std::span<const std::byte> mine;
    std::span<std::byte> all;
  };
  // A process of this host, at its leader.
  struct Member {
    FrameStream stream;
    std::vector<RankEntry> ranks;
    std::optional<Frame> part;  // of the exchange under way
  };
  // An accepted connection that has not proven or not said what it is.
  struct Newcomer {
    FrameStream stream;
    bool local;  // over the Unix socket
  };
  enum class Stage { kMeeting, kLinking, kRunning };

  Node(std::vector<UniqueId> roots, const Secret& secret, Settings settings, os::Hello hello, os::AbortFlag stop,
       os::UniqueFd wake);

  // Callers.
  Status wait(std::unique_lock<std::mutex>& lock, Local* local, Rank rank, const os::WaitLimits& limits,
              std::string_view what);
  Local* find(Rank rank);
  void wake() noexcept;

  // The serving thread; everything below is its own but for what mutex_ guards.
  void run();
  Status elect();
  void serve_once();
  void look_at_callers();
  void announce();
  void accept();
  void handle_newcomer(std::list<Newcomer>::iterator newcomer);
  void handle_root();
  void handle_member(Member& member);
  void handle_leader();  // of this member
  void welcome(const Frame& frame);
  void start_connecting();
  void look_at_connections();
  bool linked() const;
  void progress();
  bool collect_own();
  bool take_blocks(const Frame& frame);
  void finish();
  void finish_meeting();
  void deliver(std::span<const std::byte> whole);
  void fail(Status status);
  std::string waiting_for();
  bool flushed() const;
  std::string own_name() const;

  const std::vector<UniqueId> roots_;
  const Secret secret_;
  const Settings settings_;
  os::Hello hello_;
  os::AbortFlag stop_;  // raised at the end: what blocks in the threads gives up
  os::UniqueFd wake_;
  os::ForkMark fork_mark_;

  mutable std::mutex mutex_;  // guards up to the next mark
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Local>> locals_;
  int size_ = 0;
  os::Deadline first_deadline_ = os::Deadline::never();
  bool closed_ = false;  // all ranks have come: no more may join
  bool ready_ = false;
  Status failed_;
  Status request_;  // a caller's reason to fail
  std::optional<Rank> timed_out_;
  std::string timeout_text_;
  bool stopping_ = false;
  std::deque<Result<FrameStream>> connected_;  // by the connector, in the order in which it was asked
  BootstrapCounters counters_;                 // published
  // End of what mutex_ guards.

  bool leader_ = false;
  bool timeout_sent_ = false;
  Stage stage_ = Stage::kMeeting;
  FrameCounters frames_;
  std::uint64_t rounds_done_ = 0;
  os::Thread server_;
  os::Thread connector_;
  bool connecting_ = false;

  // A member's.
  std::optional<FrameStream> to_leader_;
  bool part_sent_ = false;

  // A leader's.
  std::optional<os::UnixListener> near_;
  std::optional<os::NetListener> far_;
  os::Deadline accept_after_ = os::Deadline::at_ns(0);
  std::list<Newcomer> newcomers_;
  std::list<Member> members_;
  std::optional<FrameStream> root_;
  std::deque<RankEntry> to_announce_;
  WelcomeHead place_;
  std::vector<LeaderCard> targets_, sources_;  // by round
  std::vector<std::optional<FrameStream>> to_, from_;
  std::vector<Rank> own_ranks_;                // of this host, sorted
  std::vector<std::vector<Rank>> host_ranks_;  // of all hosts
  std::uint64_t sequence_ = 0;                 // of the all-gather under way; 0 is the one of ranks
  bool own_known_ = false;
  std::uint32_t round_ = 0;
  bool round_sent_ = false;
  std::vector<std::vector<std::byte>> blocks_;  // from this host's on
};

}  // namespace hocket
