// SPDX-License-Identifier: Apache-2.0
// tools/run/open_files.hpp: whether a launcher may open as many descriptors as its ranks take, known before the first
// one starts.
#pragma once

#include <sys/resource.h>

#include <string_view>

#include "hocket/status.hpp"

namespace hocket::run {

/// While it lives, the soft limit on open files (`ulimit -n`) is as high as the children need, if the hard one allows
/// it. Children do not inherit that: see before(). One thread.
class OpenFiles {
 public:
  /// What a launcher keeps open for each child: its socket or stdin, its pidfd, its stdout, its stderr.
  static constexpr int kEach = 4;

  /// Room for `children`, which texts call `what` ("ranks"). Errors: kOutOfMemory with what is needed, which limit
  /// forbids it, and what to do; kSystem.
  static Result<OpenFiles> allow(int children, std::string_view what);

  OpenFiles(OpenFiles&& other) noexcept : before_(other.before_), raised_(other.raised_) { other.raised_ = false; }
  OpenFiles& operator=(OpenFiles&&) = delete;
  ~OpenFiles();

  /// How many ranks a launcher that this process would start, or become, has room for within `limit`.
  static rlim_t room(rlim_t limit);

  /// The limit that this process was started with, and its children are.
  const rlimit& before() const noexcept { return before_; }

 private:
  explicit OpenFiles(const rlimit& before) noexcept : before_(before) {}
  rlimit before_;
  bool raised_ = false;
};

}  // namespace hocket::run
