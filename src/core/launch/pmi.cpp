// SPDX-License-Identifier: Apache-2.0
// pmi.cpp: ranks that MPICH's mpirun (Hydra) or srun --mpi=pmi2 started: rank 0's id goes through PMI.
//
// PMI's first wire protocol: a line "cmd=… key=value …" each way over the inherited socket PMI_FD. Slurm's pmi2 plugin
// speaks it to clients that begin with it, so it is all that is needed here. After the id is known the client says
// good-bye, and the descriptor is of no more use to others (a program that calls MPI_Init has to come before, or bring
// MPI's all-gather instead).
// Source: Balaji et al., PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale Systems, EuroMPI 2010.
#include <fcntl.h>
#include <sys/socket.h>

#include <map>

#include "base/os/abort.hpp"
#include "base/os/socket.hpp"
#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/launch/launchers.hpp"

namespace hocket {
namespace {

class PmiClient {
 public:
  PmiClient(int fd, const os::WaitLimits& limits) : fd_(fd), limits_(limits) {}

  using Answer = std::map<std::string, std::string>;

  /// Sends a line and reads one. Errors: kSystem, kPeerLost, kTimeout; kMismatch if the answer is no `expected`, or
  /// says that it went wrong.
  Result<Answer> ask(const std::string& line, std::string_view expected) {
    const std::string text = line + "\n";
    std::string_view rest = text;
    while (!rest.empty()) {
      // A socket with every process manager known; a closed one must not end the process by a signal.
      const ssize_t n = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return system_error(Code::kPeerLost, errno, "write to PMI_FD={}", fd_);
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    std::string answer;
    for (;;) {
      HOCKET_TRY(os::poll_for(fd_, POLLIN, limits_, format("PMI's answer to {}", line.substr(0, line.find(' ')))));
      char c = 0;
      const ssize_t n = ::read(fd_, &c, 1);  // one by one: what follows the line may be another's
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n < 0) return system_error(Code::kPeerLost, errno, "read from PMI_FD={}", fd_);
      if (n == 0) return error(Code::kPeerLost, "the process manager closed PMI_FD={}", fd_);
      if (c == '\n') break;
      answer += c;
      if (answer.size() > 8192) return error(Code::kMismatch, "PMI's answer is too long");
    }
    Answer fields;
    for (std::size_t at = 0; at < answer.size();) {
      const std::size_t end = std::min(answer.find(' ', at), answer.size());
      const std::size_t equals = answer.find('=', at);
      if (equals < end) fields[answer.substr(at, equals - at)] = answer.substr(equals + 1, end - equals - 1);
      at = end + 1;
    }
    if (fields["cmd"] != expected || (fields.count("rc") && fields["rc"] != "0")) {
      return error(Code::kMismatch, "PMI answered '{}' to '{}'", answer, line.substr(0, line.find(" value=")));
    }
    return fields;
  }

 private:
  int fd_;
  os::WaitLimits limits_;
};

Result<std::vector<UniqueId>> meet(int fd, const LaunchedRank& who, const Settings& settings) {
  PmiClient pmi(fd, {.deadline = os::Deadline::after_or_never(settings.start_timeout)});
  HOCKET_TRY(pmi.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init").status());
  HOCKET_ASSIGN(PmiClient::Answer space, pmi.ask("cmd=get_my_kvsname", "my_kvsname"));
  const std::string name = space["kvsname"];
  // The number keeps ids of programs that run one after the other in one job apart; values are words without spaces.
  const std::string key = "hocket-id";
  std::optional<UniqueId> id;
  if (who.rank == 0) {
    HOCKET_ASSIGN(PmiClient::Answer most, pmi.ask("cmd=get_maxes", "maxes"));
    const std::string longest = most["vallen_max"];
    HOCKET_ASSIGN(id, UniqueId::create(settings));
    const std::string text = id->to_string();
    if (std::strtoul(longest.c_str(), nullptr, 10) <= text.size()) {
      return error(Code::kUnsupported, "PMI carries values of at most '{}' characters, an id has {}", longest,
                   text.size());
    }
    HOCKET_TRY(pmi.ask(format("cmd=put kvsname={} key={} value={}", name, key, text), "put_result").status());
  }
  HOCKET_TRY(pmi.ask("cmd=barrier_in", "barrier_out").status());
  if (!id) {
    HOCKET_ASSIGN(PmiClient::Answer got, pmi.ask(format("cmd=get kvsname={} key={}", name, key), "get_result"));
    HOCKET_ASSIGN(id, UniqueId::from_string(got["value"]));
  }
  HOCKET_TRY(pmi.ask("cmd=finalize", "finalize_ack").status());
  return std::vector<UniqueId>{*id};
}

}  // namespace

Result<std::optional<LaunchedRank>> launched_by_pmi(const Settings& settings) {
  if (!is_set("PMI_FD")) return std::optional<LaunchedRank>();
  constexpr std::string_view kHint = "MPICH's mpirun and srun --mpi=pmi2 set PMI_FD, PMI_RANK and PMI_SIZE";
  LaunchedRank who;
  who.launcher = "PMI";
  HOCKET_ASSIGN(const int fd, number_of("PMI_FD", 0, 1 << 30, kHint));
  HOCKET_ASSIGN(who.size, number_of("PMI_SIZE", 1, kMostRanks, kHint));
  HOCKET_ASSIGN(who.rank, number_of("PMI_RANK", 0, who.size - 1, kHint));
  who.local_rank = who.rank;
  for (const char* name : {"MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (!is_set(name)) continue;
    HOCKET_ASSIGN(who.local_rank, number_of(name, 0, who.size - 1, kHint));
    break;
  }
  if (::fcntl(fd, F_GETFD) < 0) {
    return error(Code::kInvalidArgument,
                 "PMI_FD={}: no such descriptor is open; whoever started this program closed it on the way", fd);
  }
  who.exchange = exchange_by_ids(who, settings, [=] { return meet(fd, who, settings); });
  return std::optional<LaunchedRank>(std::move(who));
}

}  // namespace hocket
