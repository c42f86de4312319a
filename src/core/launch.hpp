// SPDX-License-Identifier: Apache-2.0
// core/launch.hpp: what `hocket run` and a rank that it started say to each other.
//
// The launcher gives each rank one end of a Unix stream socket in HOCKET_RUN_FD. An exchange is one request of every
// rank and one answer to each: the concatenation by rank, or why there is none. Other side: tools/run.cpp. Next stop:
// core/communicator.cpp (Communicator::from_environment), which is given the exchange.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "hocket/communicator.hpp"
#include "hocket/settings.hpp"
#include "hocket/status.hpp"

namespace hocket {

/// What stands before the bytes of a request and of an answer. Both processes run on one host: its byte order.
struct LaunchHeader {
  static constexpr std::uint32_t kMagic = 0x686b5278;
  static constexpr std::uint32_t kVersion = 1;
  /// More than this in one request is refused on both sides.
  static constexpr std::uint64_t kMaxBytes = std::uint64_t{16} << 20;
  /// And in one answer.
  static constexpr std::uint64_t kMaxAnswerBytes = std::uint64_t{1} << 30;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint64_t sequence = 0;  ///< of the exchange, from 0 in each process; equal on all ranks
  std::uint32_t rank = 0;      ///< who asks, or is answered
  std::uint32_t code = 0;      ///< of an answer: a Code; when not ok, the bytes are the error's text
  std::uint64_t bytes = 0;     ///< that follow
};
static_assert(sizeof(LaunchHeader) == 32);

/// Most ranks that one launcher starts.
inline constexpr int kMaxLaunchedRanks = 4096;

struct LaunchedRank {
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;
  /// Any number of times, every rank equally often; calls of several threads run one after the other. Errors: kPeerLost
  /// with who died and how (also when the launcher did), kTimeout, kMismatch (other lengths or order elsewhere). After
  /// kTimeout or a lost launcher every later exchange fails alike.
  Exchange exchange;
};

/// Who this process is by HOCKET_RANK, HOCKET_SIZE, HOCKET_LOCAL_RANK and HOCKET_RUN_FD; nothing if none of the first
/// two and the last is set. The descriptor is taken on the first call and kept to the end of the process.
/// `start_timeout` bounds each exchange, 0 is never. Errors: kInvalidArgument naming the variable and what is wrong
/// with it. Any thread.
Result<std::optional<LaunchedRank>> launched_from_environment(
    std::chrono::nanoseconds start_timeout = Settings{}.start_timeout);

}  // namespace hocket
