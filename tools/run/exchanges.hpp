// SPDX-License-Identifier: Apache-2.0
// tools/run/exchanges.hpp: what ranks ask their launcher: each gives some bytes, and all get what all gave.
//
// The protocol is in src/core/launch.hpp; the other side is src/core/launch/run_descriptor.cpp. Nothing here waits: a
// rank that is stopped in the middle of a request or an answer must not stop the loop.
#pragma once

#include <poll.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"
#include "tools/run/child.hpp"

namespace hocket::run {

/// Ranks are known by their number in `children`. One thread.
class Exchanges {
 public:
  /// `children` is for texts (who has ended, by which pid) and outlives this; `say` gets what a user should know.
  Exchanges(const std::vector<Child>& children, std::function<void(std::string_view)> say)
      : children_(children), say_(std::move(say)) {}

  /// Our end of the next child's socket; empty: it asks nothing.
  void add(os::UniqueFd socket) { peers_.emplace_back().socket = std::move(socket); }

  pollfd entry(std::size_t child) const;
  void handle(std::size_t child, short events);
  /// It has ended (children[child] says how), and so no exchange can be complete any more.
  void leave(std::size_t child);
  /// Answers, if everybody has asked, or somebody never will.
  void answer_if_complete();

 private:
  // A request as far as it has come, and an answer as far as it is not sent.
  struct Peer {
    os::UniqueFd socket;  // closed once it is of no more use
    std::vector<std::byte> request;
    std::vector<std::byte> answer;
    std::size_t answered = 0;
    bool asks = false;     // the request is complete
    bool gave_up = false;  // it waited for others as long as it may
  };

  void receive(std::size_t child);
  void refuse(std::size_t child, std::string_view why);
  void tell_who_is_missing(std::size_t child);
  void answer_all(Code code, std::span<const std::byte> bytes);
  void answer_all(Code code, std::string_view text) { answer_all(code, std::as_bytes(std::span(text))); }
  static void answer(Peer& peer, Code code, std::span<const std::byte> bytes);
  static void send(Peer& peer);

  const std::vector<Child>& children_;
  std::function<void(std::string_view)> say_;
  std::vector<Peer> peers_;
  std::string lost_;  // why no exchange can be complete any more; empty while it can
};

}  // namespace hocket::run
