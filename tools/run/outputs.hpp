// SPDX-License-Identifier: Apache-2.0
// tools/run/outputs.hpp: from the stdout and stderr of ranks to ours, line by line; and what the launcher itself says.
//
// Next stop: sink.hpp, which writes.
#pragma once

#include <poll.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"
#include "tools/run.hpp"
#include "tools/run/child.hpp"
#include "tools/run/sink.hpp"

namespace hocket::run {

/// Children are known by their number, in the order in which they were added. One thread.
class Outputs {
 public:
  /// `tagged`: each line begins with its rank. Errors: kOutOfMemory.
  static Result<Outputs> open(const Options& options, bool tagged);

  /// Whether a child's stdout (0), stderr (1) comes here.
  bool through(int stream) const noexcept { return through_[stream]; }
  /// Of the next child; an empty one is none.
  void add(const Child& child, ChildEnds& ends);

  /// A line of the launcher's own, on stderr.
  void say(std::string_view text);

  /// What to poll for: a child's stream, while there is room for more of it; one of our two, always.
  pollfd entry(std::size_t child, int stream) const;
  pollfd sink_entry(int which) const;

  /// What has come of a stream, a little of it: one rank that writes without end is not all there is.
  void read(std::size_t child, int stream);
  /// Of a child that has ended: all that it left, whatever is held already.
  void read_rest(std::size_t child);
  /// When sink_entry() has something.
  void look_at_sinks();
  /// After the last child: what is left in their pipes, and what our readers have not taken. Waits for these until
  /// `signals` has one.
  void finish(int signals);

  /// Something was lost that somebody would have read.
  bool failed() const noexcept { return failed_[0] || failed_[1]; }

 private:
  // The read end of a rank's stdout or stderr, and the line that is not complete yet.
  struct Stream {
    os::UniqueFd fd;
    int sink = 0;
    std::string line;
    bool within = false;  // of the line, a first piece has been passed on
  };
  struct Source {
    std::string tag;  // before each line
    Stream streams[2];
  };

  explicit Outputs(const Options& options) : name_(options.name) {}
  int stderr_sink() const noexcept { return static_cast<int>(sinks_.size()) - 1; }
  bool may_read(const Stream& stream) const { return sinks_[static_cast<std::size_t>(stream.sink)].takes_more(); }
  void read(Source& source, Stream& stream, int reads, bool held_too);
  void take_text(const Source& source, Stream& stream, std::string_view read);
  void close(const Source& source, Stream& stream);

  std::string name_;
  bool tagged_ = false;
  bool through_[2] = {false, false};
  std::vector<Sink> sinks_;  // stdout and stderr, or the one that both are
  bool failed_[2] = {false, false};
  std::deque<Source> sources_;  // a deque: a stream's address says whose line it is
};

}  // namespace hocket::run
