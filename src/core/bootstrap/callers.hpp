// SPDX-License-Identifier: Apache-2.0
// callers.hpp: between the ranks of this process, which call and sleep, and the thread that serves them all.
//
// A rank leaves what it wants, is woken when it is there, and gives up by itself when its time is over. What went wrong
// first is the answer to all, now and later.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os/abort.hpp"
#include "base/os/wake.hpp"
#include "core/bootstrap/counters.hpp"
#include "hocket/status.hpp"
#include "hocket/types.hpp"

namespace hocket {

class Callers {
 public:
  /// `wake` is the serving thread's, and outlives this. `host`: its name, for texts.
  Callers(const os::Wake& wake, std::string host) : wake_(wake), host_(std::move(host)) {}

  // ---- For ranks; any thread. Each waits until `limits`, and then a little for the reason. ----

  /// Waits until all have come. `start` begins to serve, for the first one.
  Status join(Rank rank, int size, const os::WaitLimits& limits, const std::function<Status()>& start);
  Status exchange(Rank rank, std::span<const std::byte> mine, std::span<std::byte> all, const os::WaitLimits& limits);
  BootstrapCounters counters() const;

  // ---- For the serving thread ----

  /// How many ranks meet. Known once the first has come.
  int size() const noexcept { return size_; }
  /// When the first one's time is over.
  os::Deadline first_deadline() const;
  /// Ranks that came since the last call.
  std::vector<Rank> take_new();
  /// All have come: no more may.
  void close();
  /// And are told so.
  void set_ready();

  struct TimedOut {
    Rank rank;
    std::string text;
  };
  std::optional<TimedOut> timed_out() const;
  /// A caller's reason to fail; ok: none.
  Status request() const;

  bool any_waits() const;
  /// Ranks that have not come to the exchange under way.
  std::vector<Rank> absent() const;
  /// What each rank gave, while `use` runs. False if not all have. Errors: those of `use`.
  using Part = std::pair<Rank, std::span<const std::byte>>;
  Result<bool> with_parts(const std::function<Status(std::vector<Part>&)>& use) const;
  /// The exchange's result. Errors: kMismatch.
  Status deliver(std::span<const std::byte> whole);

  /// The first failure counts: false if there was one.
  bool fail(Status status);
  Status failure() const;

  void publish(const FrameCounters& frames, bool leader, int hosts, int rounds);
  void stop();
  bool stopping() const;

 private:
  struct Local {
    Rank rank = 0;
    bool announced = false;
    bool waiting = false;  // for the exchange under way
    std::span<const std::byte> mine;
    std::span<std::byte> all;
  };

  Status wait(std::unique_lock<std::mutex>& lock, Local* local, Rank rank, const os::WaitLimits& limits,
              std::string_view what);
  Status refuse(Status why);
  Local* find(Rank rank);

  const os::Wake& wake_;
  const std::string host_;

  mutable std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Local>> locals_;
  int size_ = 0;  // but this, once the first has come
  os::Deadline first_deadline_ = os::Deadline::never();
  bool closed_ = false;
  bool ready_ = false;
  Status failed_;
  Status request_;
  std::optional<TimedOut> timed_out_;
  bool stopping_ = false;
  BootstrapCounters counters_;
};

}  // namespace hocket
