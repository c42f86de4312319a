// SPDX-License-Identifier: Apache-2.0
// core/launch.hpp: who this process is, by whoever started it.
//
// Each launcher is a file in core/launch/: it finds rank and size in variables, and how the ranks meet: by an exchange
// of its own (`hocket run`), or by a UniqueId that rank 0 makes and the launcher carries. Asked in this order, the more
// explicit and the inner first:
//
//   hocket run          HOCKET_RUN_FD (an inherited socket; its protocol is below, its other side tools/run/)
//   variables           HOCKET_RANK and HOCKET_SIZE, and HOCKET_UNIQUE_ID or HOCKET_ROOT; a Kubernetes Indexed Job has
//                       JOB_COMPLETION_INDEX for the rank
//   a file              HOCKET_RENDEZVOUS; ranks by HOCKET_RANK and HOCKET_SIZE, or Slurm's variables
//   torchrun            RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
//   PMIx                PMIX_NAMESPACE and PMIX_RANK: Open MPI's mpirun, srun --mpi=pmix
//   PMI                 PMI_FD, PMI_RANK and PMI_SIZE: MPICH's mpirun, srun --mpi=pmi2
//
// Nothing of these is a world of one. Where another one lower in the list has another rank or size, a warning names
// both. Nothing is opened before the first exchange, and the meeting is kept for the life of the process.
// Next stop: core/communicator.cpp (Communicator::from_environment), which is given the exchange.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

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
  /// And of an error's text.
  static constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 16;

  std::uint32_t magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint64_t sequence = 0;  ///< of the exchange, from 0 in each process; equal on all ranks
  std::uint32_t rank = 0;      ///< who asks, or is answered
  std::uint32_t code = 0;      ///< of an answer: a Code; when not ok, the bytes are the error's text
  std::uint64_t bytes = 0;     ///< that follow
};
static_assert(sizeof(LaunchHeader) == 32);

/// The launcher's side: how many bytes the request of this rank has, header and all, by what has come of it; 0: that is
/// not known yet. Errors: kInvalidArgument with what is wrong with it, also if more has come than it has. Pure.
Result<std::size_t> launch_request_bytes(std::span<const std::byte> so_far, Rank rank);
/// A rank's side: how many bytes follow the header of the answer to `request`, which should be `all_bytes`, or the text
/// of an error. Errors: kInvalidArgument, kInternal. Pure.
Result<std::size_t> launch_answer_bytes(const LaunchHeader& answer, const LaunchHeader& request, std::size_t all_bytes);

/// Most ranks that one launcher starts.
inline constexpr int kMaxLaunchedRanks = 4096;

struct LaunchedRank {
  Rank rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string launcher;  ///< "hocket run", "PMIx", …: for texts
  /// Any number of times, every rank equally often; calls of several threads run one after the other. Errors: kPeerLost
  /// with who died and how (also when the launcher did), kTimeout, kMismatch (other lengths or order elsewhere), and
  /// for the first one all of Bootstrap::join. After kTimeout or a lost peer every later exchange fails alike.
  Exchange exchange;
};

/// Who this process is; nothing if no launcher has left its variables. Of `settings`, start_timeout bounds each
/// exchange, and interfaces, ports and host_id are how ranks meet. Errors: kInvalidArgument naming the variable and
/// what is wrong with it or missing; kUnsupported with the package or option that is missing. Any thread.
Result<std::optional<LaunchedRank>> launched_from_environment(const Settings& settings = {});

}  // namespace hocket
