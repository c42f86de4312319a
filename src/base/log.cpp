// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <unistd.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <string>

#include "base/os/process.hpp"

namespace hocket {

std::string_view to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarn: return "warn";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
    case LogLevel::kTrace: return "trace";
  }
  return "?";
}

namespace {

struct Sink {
  std::mutex mutex;
  std::shared_ptr<const LogCallback> callback;  // guarded by mutex; null is stderr
  os::ForkMark fork_mark;
  Sink* parents = nullptr;  // in a child: the one it inherited, so that leak checkers see it held
};

// Never destroyed: helper threads may log while the process exits. A child after fork gets a new one, because the mutex
// of the old one may be held by a thread that the child does not have.
Sink& sink() {
  static std::atomic<Sink*> instance{new Sink};
  Sink* current = instance.load(std::memory_order_acquire);  // pairs with the exchange of another thread
  if (current->fork_mark.forked()) [[unlikely]] {
    Sink* fresh = new Sink;
    fresh->parents = current;
    if (instance.compare_exchange_strong(current, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
  }
  return *current;
}

thread_local bool inside_callback = false;

void write_to_stderr(LogLevel level, std::string_view line) {
  const std::string text = format("hocket: {}: {}\n", to_string(level), line);
  // One write, so that lines of several processes do not mix. A stderr that takes nothing cannot be reported anywhere.
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace

void set_log_callback(LogCallback callback) {
  auto fresh = callback ? std::make_shared<const LogCallback>(std::move(callback)) : nullptr;
  if (inside_callback) {
    sink().callback.swap(fresh);  // this thread holds the mutex, and the running callback lives until it returns
    return;
  }
  const std::lock_guard lock(sink().mutex);
  sink().callback.swap(fresh);
}

void set_log_level(LogLevel level) noexcept {
  detail::current_log_level.store(level, std::memory_order_relaxed);
}

LogLevel log_level() noexcept {
  return detail::current_log_level.load(std::memory_order_relaxed);
}

namespace detail {

std::atomic<LogLevel> current_log_level{LogLevel::kWarn};

void write_log_line(LogLevel level, std::string_view line) noexcept {
  try {
    if (inside_callback) return write_to_stderr(level, line);
    const std::lock_guard lock(sink().mutex);
    const std::shared_ptr<const LogCallback> callback = sink().callback;
    if (!callback) return write_to_stderr(level, line);
    inside_callback = true;
    try {
      (*callback)(level, line);
    } catch (...) {
      // The callback's own trouble: the promise is only that it ends here.
    }
    inside_callback = false;
  } catch (...) {
    // No memory for a log line: the line is lost, the caller goes on.
  }
}

}  // namespace detail
}  // namespace hocket
