// SPDX-License-Identifier: Apache-2.0
#include "tools/run/outputs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/format.hpp"
#include "base/status.hpp"

namespace hocket::run {
namespace {

// A line of more is passed on in pieces, so that what has no lines at all needs no memory without end.
constexpr std::size_t kLongestLine = 256 << 10;
constexpr int kReads = 20;              // of 16 KiB each, a turn
constexpr int kRestReads = 4 * kReads;  // more than a pipe holds

// Both are one file (2>&1, or a terminal): what is held for it is held in one place, or lines would cut each other.
bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Result<Outputs> Outputs::open(const Options& options, bool tagged) {
  Outputs self(options);
  self.tagged_ = tagged;
  // A terminal's stdout is left to the ranks, which then write line by line themselves. Their stderr is not: programs
  // write it in pieces.
  self.through_[0] = tagged || (options.whole_lines && !::isatty(STDOUT_FILENO));
  self.through_[1] = tagged || options.whole_lines;
  HOCKET_ASSIGN(Sink standard, Sink::open(STDOUT_FILENO));
  self.sinks_.push_back(std::move(standard));
  if (!same_file(STDOUT_FILENO, STDERR_FILENO)) {
    HOCKET_ASSIGN(Sink errors, Sink::open(STDERR_FILENO));
    self.sinks_.push_back(std::move(errors));
  }
  return self;
}

void Outputs::add(const Child& child, ChildEnds& ends) {
  Source& source = sources_.emplace_back();
  if (tagged_) source.tag = format("[{}] ", child.rank);
  for (int i = 0; i < 2; ++i) source.streams[i].fd = std::move(ends.outputs[i]);
  source.streams[1].sink = stderr_sink();
}

void Outputs::say(std::string_view text) {
  sinks_.back().put(format("{}: {}\n", name_, text));
}

pollfd Outputs::entry(std::size_t child, int stream) const {
  const Stream& s = sources_[child].streams[stream];
  return {.fd = s.fd && may_read(s) ? s.fd.get() : -1, .events = POLLIN, .revents = 0};
}

pollfd Outputs::sink_entry(int which) const {
  const auto i = static_cast<std::size_t>(which);
  return {.fd = i < sinks_.size() ? sinks_[i].fd() : -1, .events = POLLIN, .revents = 0};
}

// ---- From a rank ----

void Outputs::read(std::size_t child, int stream) {
  Source& source = sources_[child];
  read(source, source.streams[stream], kReads, false);
}

void Outputs::read_rest(std::size_t child) {
  Source& source = sources_[child];
  for (Stream& stream : source.streams) read(source, stream, kRestReads, true);
}

void Outputs::read(Source& source, Stream& stream, int reads, bool held_too) {
  char buffer[16384];
  for (; stream.fd && reads > 0 && (held_too || may_read(stream)); --reads) {
    const ssize_t n = ::read(stream.fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) return close(source, stream);
    take_text(source, stream, std::string_view(buffer, static_cast<std::size_t>(n)));
  }
}

// Whole lines are passed on. On a terminal what ends in a carriage return is one too: a progress bar has nothing
// else.
void Outputs::take_text(const Source& source, Stream& stream, std::string_view read) {
  Sink& sink = sinks_[static_cast<std::size_t>(stream.sink)];
  std::size_t seen = stream.line.size();
  stream.line += read;
  const std::string_view line = stream.line;
  std::string text;
  std::size_t begin = 0;
  for (std::size_t end; (end = line.find('\n', seen)) != std::string_view::npos; begin = seen = end + 1) {
    if (!std::exchange(stream.within, false)) text += source.tag;
    text += line.substr(begin, end + 1 - begin);
  }
  std::size_t enough = begin;
  if (line.size() - begin > kLongestLine) {
    enough = line.size();
  } else if (sink.terminal()) {
    // A last one may be the first half of a line's end.
    const std::size_t back = line.substr(0, line.size() - 1).rfind('\r');
    if (back != std::string_view::npos) enough = std::max(begin, back + 1);
  }
  if (enough > begin) {
    if (!std::exchange(stream.within, true)) text += source.tag;
    text += line.substr(begin, enough - begin);
  }
  stream.line.erase(0, enough);
  sink.put(text, &stream);
}

// Its last line may have no end: it gets one with a tag, or when something follows.
void Outputs::close(const Source& source, Stream& stream) {
  Sink& sink = sinks_[static_cast<std::size_t>(stream.sink)];
  if (!stream.line.empty()) sink.put((stream.within ? "" : source.tag) + stream.line, &stream);
  if (!source.tag.empty() && sink.within_line_of(&stream)) sink.put("\n", &stream);
  stream.within = false;
  stream.line.clear();
  stream.fd.reset();
}

// ---- To our readers ----

// A reader that has gone is none of the ranks' either; with any other trouble they go on, and it is said.
void Outputs::look_at_sinks() {
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    const Sink::Event event = sinks_[i].take();
    if (event.gone) {
      for (Source& source : sources_)
        for (Stream& stream : source.streams)
          if (static_cast<std::size_t>(stream.sink) == i) stream.fd.reset();
    } else if (event.error != 0 && !std::exchange(failed_[i], true) && i == 0 && sinks_.size() == 2) {
      say(format("stdout can't be written: {}", ::strerror(event.error)));
    }
    if (event.stopped.count() > 0) {
      say(format("the terminal took nothing for {:.0f} s (^S stops it, ^Q lets it go on); output was held meanwhile",
                 static_cast<double>(event.stopped.count()) / 1e9));
    }
  }
}

void Outputs::finish(int signals) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    read_rest(i);
    for (Stream& stream : sources_[i].streams) close(sources_[i], stream);
  }
  for (Sink& sink : sinks_) sink.expect_drained();
  const auto held = [](const Sink& sink) { return !sink.drained(); };
  while (std::any_of(sinks_.begin(), sinks_.end(), held)) {
    pollfd entries[3] = {sink_entry(0), sink_entry(1), {.fd = signals, .events = POLLIN, .revents = 0}};
    if (::poll(entries, 3, -1) < 0 && errno != EINTR) return;
    if (entries[2].revents) return;
    look_at_sinks();
  }
  look_at_sinks();  // an error of the last write
}

}  // namespace hocket::run
