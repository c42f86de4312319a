// SPDX-License-Identifier: Apache-2.0
// host_leader.hpp: the process that speaks for its host.
//
//   meeting    reports its ranks and its members' to the root, until that says that all have come
//   linking    connects to the leaders that it works with, and they to it
//   running    an exchange: takes the members' parts, gathers those of all hosts (host_gather.hpp), hands the whole
//   out.
//              The first one is of who is where; with its result the ranks are told that all are there
#pragma once

#include <list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/bootstrap/callers.hpp"
#include "core/bootstrap/connector.hpp"
#include "core/bootstrap/host_gather.hpp"
#include "core/bootstrap/host_role.hpp"
#include "core/bootstrap/reception.hpp"
#include "hocket/settings.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

/// What a process is in a meeting, whatever its role. Borrowed from its Node.
struct HostContext {
  Callers& callers;
  const os::Wake& wake;
  const os::AbortFlag& stop;  ///< raised before a role ends
  std::span<const UniqueId> roots;
  const Secret& secret;
  const Settings& settings;
  const os::Hello& hello;
  std::string name;  ///< in texts
  FrameCounters* counters;
};

class HostLeader final : public HostRole {
 public:
  /// Without `far` it only tells who comes what the meeting has failed with.
  HostLeader(const HostContext& context, os::UnixListener near, std::optional<os::NetListener> far)
      : context_(context),
        reception_(std::move(near), std::move(far), context.hello, context.secret, context.name, context.counters),
        connector_(context.wake) {}
  /// Begins to connect to the root. Errors: kOutOfMemory.
  Status start();

  std::vector<FrameStream*> streams() override;
  void listen(std::vector<pollfd>& fds, os::Deadline& wake_at) override { reception_.listen(fds, wake_at); }
  Status admit(const Status& failure) override;
  Status work() override;
  void tell(const Status& failure) override;
  bool flushed() const override;
  bool leads() const override { return true; }
  int hosts() const override { return static_cast<int>(gather_.place().hosts); }
  int rounds() const override { return gather_.rounds_done(); }

 private:
  // A process of this host.
  struct Follower {
    FrameStream stream;
    std::vector<RankEntry> ranks;
    std::optional<Frame> part;  // of the exchange under way
  };
  enum class Stage { kMeeting, kLinking, kRunning };

  std::size_t root_index() const;
  Status look_at_callers();
  Status take_connections();
  void report();
  Status report_to(FrameStream root);
  Status hear_root();
  Status hear(Follower& follower);
  Status gather();
  Status miss_followers() const;
  Result<std::optional<HostGather::Block>> own_block();
  Status finish_meeting();
  Status finish_exchange();
  std::string waiting_for() const;

  const HostContext context_;
  Callers& callers_ = context_.callers;
  Reception reception_;
  Connector connector_;
  Stage stage_ = Stage::kMeeting;
  bool timeout_sent_ = false;
  std::optional<FrameStream> root_;   // while meeting
  std::vector<RankEntry> to_report_;  // until there is a root
  std::list<Follower> followers_;
  HostGather gather_;
  std::uint64_t sequence_ = 0;                 // of the exchange under way
  std::vector<Rank> own_ranks_;                // of this host; sorted once all have come
  std::vector<std::vector<Rank>> host_ranks_;  // of all hosts
};

}  // namespace hocket
