// SPDX-License-Identifier: Apache-2.0
// status.hpp: what every hocket call returns.
//
// A Status is one pointer, null when everything went well, so success costs nothing. An error carries a code that says
// what is lost (this call, the communicator, the process) and a text that names who, where and what to do.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace [[gnu::visibility("default")]] hocket {

/// What went wrong, grouped by what is lost. Values are stable: they travel between processes.
enum class Code : std::uint8_t {
  kOk = 0,
  // This call; the communicator can be used on.
  kInvalidArgument = 1,  ///< a null or overlapping buffer, a wrong root, an unknown type, a malformed setting
  kUnsupported = 2,      ///< understood, but not possible here; the text says why
  kOutOfMemory = 3,      ///< memory, descriptors or another resource ran out
  kSystem = 4,           ///< the operating system refused; the text has the call and errno
  // The communicator; shrink it to the survivors or make a new one.
  kPeerLost = 16,  ///< a rank died or its connection broke
  kTimeout = 17,   ///< HOCKET_TIMEOUT passed with no progress
  kMismatch = 18,  ///< ranks made different calls; both are in the text
  kAborted = 19,   ///< abort() was called here or on another rank
  // The process.
  kInternal = 32,  ///< a bug of ours
};

/// "peer lost", "mismatch" …; never null.
std::string_view to_string(Code code) noexcept;

/// Success, or a code with a text. Copyable, comparable with ok(); one pointer wide. Any thread may read one.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string text);

  bool ok() const noexcept { return !state_; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return state_ ? state_->code : Code::kOk; }
  /// The whole sentence, without the code. Empty when ok.
  std::string_view text() const noexcept { return state_ ? std::string_view(state_->text) : std::string_view(); }
  /// "mismatch: rank 2 …", for people; "ok" when ok.
  std::string to_string() const;

 private:
  struct State {
    Code code;
    std::string text;
  };
  std::shared_ptr<const State> state_;
};

/// A value or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }
  /// The value; calling it without one is a bug of the caller and ends the program with the status on stderr.
  T& value() & { return check(), *value_; }
  const T& value() const& { return check(), *value_; }
  T&& value() && { return check(), std::move(*value_); }
  T* operator->() { return check(), &*value_; }
  const T* operator->() const { return check(), &*value_; }
  T& operator*() & { return check(), *value_; }
  const T& operator*() const& { return check(), *value_; }
  T&& operator*() && { return check(), std::move(*value_); }

 private:
  void check() const;
  std::optional<T> value_;
  Status status_;
};

namespace detail {
[[noreturn]] void value_of_an_error(const Status& status);
}

template <class T>
void Result<T>::check() const {
  if (!value_) detail::value_of_an_error(status_);
}

}  // namespace gnu::visibility("default")]]hocket
