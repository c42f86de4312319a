// SPDX-License-Identifier: Apache-2.0
#include "core/observe.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/log.hpp"
#include "base/os/futex.hpp"
#include "base/status.hpp"

namespace hocket {
namespace {

constexpr std::chrono::seconds kTraceEvery(1);
constexpr int kMetricsEvery = 5;  // of those

// All that are alive, for the end of the program. Never destroyed.
struct Live {
  std::mutex mutex;
  std::set<Observation*> all;
};
Live& live() {
  static Live& live = *new Live;
  return live;
}

void write_all_at_exit() {
  const std::lock_guard lock(live().mutex);
  for (Observation* observation : live().all) observation->write_last();
}

// A reader sees the old text or the new one.
Status replace_file(const std::string& path, std::string_view text, int pid) {
  const std::string next = format("{}.{}.next", path, pid);
  const os::UniqueFd fd(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd) return system_error(Code::kSystem, errno, "HOCKET_METRICS: {} cannot be written", next);
  while (!text.empty()) {
    const ssize_t n = ::write(fd.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Status status = system_error(Code::kSystem, errno, "HOCKET_METRICS: writing {}", next);
      ::unlink(next.c_str());
      return status;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (::rename(next.c_str(), path.c_str()) != 0) {
    const Status status = system_error(Code::kSystem, errno, "HOCKET_METRICS: {} cannot be replaced", path);
    ::unlink(next.c_str());
    return status;
  }
  return {};
}

// For a label's value.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

std::string file_of_rank(const std::string& name, Rank rank) {
  const std::string number = std::to_string(rank);
  std::string path = name;
  bool named = false;
  const std::pair<std::string_view, std::string> places[] = {{"{rank}", number}, {"{pid}", std::to_string(::getpid())}};
  for (const auto& [place, value] : places) {
    for (std::size_t at = path.find(place); at != std::string::npos; at = path.find(place, at + value.size())) {
      path.replace(at, place.size(), value);
      named = true;
    }
  }
  if (named) return path;
  const std::size_t slash = name.rfind('/');
  const std::size_t first = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = name.rfind('.');
  // ".trace" is a name, no ending.
  if (dot == std::string::npos || dot <= first) return name + "." + number;
  return name.substr(0, dot) + "." + number + name.substr(dot);
}

// ---- Observer ----

void Observer::look_up(const ReadyCall& call) noexcept {
  what_ = call.record_what;
  count_ = call.key.count;
  always_timed_ = track_ != nullptr || metrics_->always_timed(call.key);
  if (metrics_) {
    bytes_ = bytes_of(call.key, metrics_->size());
    counters_ = &metrics_->of(call.key.collective);
  }
}

void Observer::end_in_full(const ReadyCall& call, std::uint64_t number, bool done) noexcept {
  if (track_) moved(number);  // first: a wait ends within its call
  const std::int64_t now = begin_ns_ != 0 ? os::now_ns() : 0;
  if (metrics_) metrics_->ended(call.key, done, begin_ns_ != 0 ? now - begin_ns_ : -1);
  if (track_) {
    TraceSlice slice;
    slice.begin_ns = begin_ns_;
    slice.end_ns = now;
    slice.number = number;
    slice.count = call.key.count;
    slice.what = call.record_what;
    slice.root_tile = call.record_root_tile;
    slice.failed = !done;
    track_->put(slice);
    if (track_->size() == TraceTrack::kSlices / 2) owner_.nudge();
  }
  begin_ns_ = 0;
  if (!done) owner_.nudge();
}

void Observer::moved(std::uint64_t number) noexcept {
  if (wait_ns_ == 0) return;
  const std::int64_t now = os::now_ns();
  if (track_ && now - wait_ns_ >= kShownWait_ns && waiting_.peer >= 0) {
    TraceSlice slice;
    slice.begin_ns = wait_ns_;
    slice.end_ns = now;
    slice.number = number;
    slice.peer = waiting_.peer;
    slice.channel = waiting_.channel;
    slice.for_data = waiting_.op == StepOp::kWaitData;
    slice.is_wait = true;
    track_->put(slice);
  }
  wait_ns_ = 0;
}

void Observer::identify(std::uint64_t id, const LiveState& state, const ClockBounds& clock) {
  const std::lock_guard lock(owner_.mutex_);
  if (metrics_) metrics_->set_id(id);
  name_ = format("communicator {:x}, {}", id, name_);
  if (clock.error_ns() >= 0)
    name_ += format(" (clock of rank 0 within {:.1f} us)", static_cast<double>(clock.error_ns()) / 1e3);
  live_ = &state;
  ahead_ns_ = clock.ahead_ns();
}

void Observer::close() {
  if (owner_.fork_mark_.forked()) return;
  {
    const std::lock_guard lock(owner_.mutex_);
    live_ = nullptr;
  }
  owner_.nudge();
}

void Observer::write() {
  owner_.write();
}

// ---- Observation ----

Observation::Observation(std::string process, std::string host, int pid)
    : process_(std::move(process)), host_(std::move(host)), pid_(pid) {}

Observation::~Observation() {
  if (fork_mark_.forked()) return;
  {
    const std::lock_guard lock(live().mutex);
    if (live().all.erase(this) == 0) return;  // nothing was ever observed
  }
  stop_.store(true, std::memory_order_relaxed);
  nudge();
  thread_.join();
  write();
}

Result<std::shared_ptr<Observer>> Observation::observe(const Settings& settings, Rank rank, int size) {
  if (settings.trace.empty() && settings.metrics.empty()) return std::shared_ptr<Observer>();
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Observer> observer(new Observer(*this));
  observer->name_ = format("rank {} of {}", rank, size);
  if (!settings.trace.empty()) {
    std::unique_ptr<TraceFile>& file = trace_files_[settings.trace];
    if (!file) {
      auto made = TraceFile::create(file_of_rank(settings.trace, rank), rank, format("rank {} ({})", rank, process_));
      if (!made.ok()) return made.status();
      file = std::move(*made);
    }
    observer->trace_file_ = file.get();
    observer->track_ = std::make_unique<TraceTrack>();
    observer->number_ = ++tracks_;
  }
  if (!settings.metrics.empty()) {
    std::string& path = metrics_paths_[settings.metrics];
    if (path.empty()) path = file_of_rank(settings.metrics, rank);
    HOCKET_TRY(replace_file(path, "", pid_));  // now is when a wrong name can be told
    observer->metrics_path_ = path;
    observer->metrics_ = std::make_unique<CallMetrics>(rank, size);
  }
  if (!started_) {
    HOCKET_ASSIGN(thread_, os::Thread::start("hocket-observer", [this] { run(); }));
    started_ = true;
    static const int registered = std::atexit(write_all_at_exit);
    (void)registered;
    const std::lock_guard all_lock(live().mutex);
    live().all.insert(this);
  }
  if (observers_.size() >= kMostObservers) {
    write_locked(true);
    const auto ended = std::find_if(observers_.begin(), observers_.end(), [](const std::shared_ptr<Observer>& one) {
      return one->live_ == nullptr && one.use_count() == 1;
    });
    if (ended != observers_.end()) observers_.erase(ended);
  }
  observers_.push_back(observer);
  return observer;
}

void Observation::nudge() noexcept {
  nudges_.fetch_add(1, std::memory_order_release);
  os::futex_wake(nudges_);
}

void Observation::write() {
  if (fork_mark_.forked()) return;
  const std::lock_guard lock(mutex_);
  write_locked(true);
}

void Observation::write_last() {
  if (fork_mark_.forked()) return;
  const std::lock_guard lock(mutex_);
  write_locked(true);
  over_ = true;
}

void Observation::run() {
  int round = 0;
  os::Deadline next = os::Deadline::after(kTraceEvery);
  std::uint32_t seen = nudges_.load(std::memory_order_acquire);
  while (!stop_.load(std::memory_order_relaxed)) {
    const bool nudged = os::futex_wait(nudges_, seen, next) != os::FutexWait::kTimedOut;
    seen = nudges_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (next.passed()) {
      next = os::Deadline::after(kTraceEvery);
      round = (round + 1) % kMetricsEvery;
    }
    const std::lock_guard lock(mutex_);
    if (over_) return;  // else the program's end would leave a half-written file
    write_locked(nudged || round == 0);
  }
}

void Observation::write_locked(bool metrics_too) {
  Status problem;
  const std::int64_t now = os::now_ns();
  std::map<std::string, std::vector<MetricsEntry>> texts;
  for (const auto& observer : observers_) {
    if (TraceFile* file = observer->trace_file_) {
      TraceSlice slice;
      // No more than there is now: a rank that makes calls all the time must not keep this here.
      for (std::uint64_t left = observer->track_->size(); left > 0 && observer->track_->take(&slice); --left) {
        if (!observer->named_) file->name_track(observer->number_, observer->name_);
        observer->named_ = true;
        file->add(observer->number_, slice, observer->ahead_ns_);
      }
      if (const std::uint64_t dropped = observer->track_->dropped(); dropped != observer->told_dropped_) {
        file->add_dropped(observer->number_, dropped - observer->told_dropped_, now - observer->ahead_ns_);
        observer->told_dropped_ = dropped;
      }
    }
    if (metrics_too && observer->metrics_) {
      MetricsEntry entry{.metrics = observer->metrics_.get()};
      if (observer->live_ != nullptr) {
        const std::uint64_t waits = observer->live_->waiting.load(std::memory_order_acquire);
        const std::int64_t since = now - observer->live_->waiting_since.load(std::memory_order_relaxed);
        if (waits != 0 && since > 0) {
          entry.waiting_seconds = static_cast<double>(since) / 1e9;
          entry.waiting_for = static_cast<int>(waits & 0xffffffffu);
        }
      }
      texts[observer->metrics_path_].push_back(entry);
    }
  }
  for (const auto& [name, file] : trace_files_) {
    if (file == nullptr) continue;
    if (Status status = file->write(); !status.ok()) problem = std::move(status);
  }
  for (const auto& [path, entries] : texts) {
    const std::string text = metrics_text(entries, format("host={},pid=\"{}\"", quoted(host_), pid_));
    if (Status status = replace_file(path, text, pid_); !status.ok()) problem = std::move(status);
  }
  if (!problem.ok() && !std::exchange(told_problem_, true))
    HOCKET_LOG(LogLevel::kWarn, "{}; this is said once", problem.text());
}

}  // namespace hocket
