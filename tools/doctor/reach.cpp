// SPDX-License-Identifier: Apache-2.0
// doctor/reach.cpp: see reach.hpp.
//
// The agent's lines, fields between tabs:
//   to it    settings INTERFACE PORTS     once, first
//   from it  here NETWORK ADDRESS…        where it listens, or: unable REASON
//   to it    try NUMBER NETWORK ADDRESS…  of another host
//   from it  reached NUMBER ADDRESS, or: failed NUMBER REASON
#include "tools/doctor/reach.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "base/os/clock.hpp"
#include "base/os/net_address.hpp"
#include "base/os/net_socket.hpp"
#include "base/os/unique_fd.hpp"
#include "base/status.hpp"
#include "tools/run.hpp"

extern char** environ;

namespace hocket::doctor {
namespace {

using os::Deadline;
using os::UniqueFd;

constexpr std::chrono::milliseconds kConnectPatience{3000};
constexpr std::size_t kLongestLine = 1 << 16;

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  for (;;) {
    const std::size_t tab = line.find('\t');
    fields.emplace_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

// For the middle of a line.
std::string one_line(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return out;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// Lines from a descriptor, each by a deadline.
class Lines {
 public:
  explicit Lines(int fd) : fd_(fd) {}

  /// Errors: kTimeout, kPeerLost (it ended), kInvalidArgument (no line but without end).
  Result<std::string> next(const Deadline& deadline) {
    for (;;) {
      if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
        std::string line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return line;
      }
      if (pending_.size() > kLongestLine) return error(Code::kInvalidArgument, "a line is too long");
      pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
      HOCKET_TRY(os::poll_for(std::span(&entry, 1), {.deadline = deadline}, "a line"));
      char buffer[4096];
      const ssize_t n = ::read(fd_, buffer, sizeof buffer);
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (n <= 0) return error(Code::kPeerLost, "it ended");
      pending_.append(buffer, static_cast<std::size_t>(n));
    }
  }

 private:
  int fd_;
  std::string pending_;
};

// One host's agent, as a child of this process.
struct Agent {
  std::string host;
  pid_t pid = -1;
  UniqueFd input, output;
  std::unique_ptr<Lines> lines;
  std::string network;
  std::vector<std::string> addresses;
  std::string unable;  ///< why it takes no part

  Agent() = default;
  Agent(Agent&&) = default;

  /// ": its launcher ended with exit code 255", once it has; "" if it hasn't soon.
  std::string ending() {
    for (int i = 0; i < 20 && pid > 0; ++i) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) == pid) {
        pid = -1;
        return WIFEXITED(status) ? format(": its launcher ended with exit code {}", WEXITSTATUS(status))
                                 : format(": its launcher was ended by signal {}", WTERMSIG(status));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return {};
  }
  ~Agent() {
    input.reset();
    if (pid <= 0) return;
    ::kill(pid, SIGTERM);
    for (const Deadline patience = Deadline::after(std::chrono::seconds(2)); !patience.passed();) {
      if (::waitpid(pid, nullptr, WNOHANG) == pid) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(pid, SIGKILL);  // a launcher that takes no SIGTERM must not keep us
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
};

Status start(const ReachOptions& options, Agent& agent) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) < 0) return system_error(Code::kSystem, errno, "a pipe");
  agent.input.reset(to[1]);
  const UniqueFd childs_input(to[0]);
  if (::pipe2(from, O_CLOEXEC) < 0) return system_error(Code::kSystem, errno, "a pipe");
  agent.output.reset(from[0]);
  const UniqueFd childs_output(from[1]);
  std::vector<std::string> words = run::launcher_words(options.launcher, agent.host);
  words.insert(words.end(), {options.hocket, "doctor", "--agent"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, childs_input.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, childs_output.get(), STDOUT_FILENO);
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return system_error(Code::kSystem, failed, "{}", argv[0]);
  agent.pid = pid;
  agent.lines = std::make_unique<Lines>(agent.output.get());
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return one_line(text ? text : "");
  };
  if (!write_all(agent.input.get(),
                 format("settings\t{}\t{}\n", variable("HOCKET_INTERFACE"), variable("HOCKET_PORTS"))))
    return error(Code::kPeerLost, "it does not listen to its stdin");
  return {};
}

Status hear(Agent& agent, const Deadline& deadline) {
  HOCKET_ASSIGN(const std::string line, agent.lines->next(deadline));
  const std::vector<std::string> fields = fields_of(line);
  if (fields.size() == 2 && fields[0] == "unable") return error(Code::kUnsupported, "{}", fields[1]);
  if (fields.size() < 3 || fields[0] != "here")
    return error(Code::kInvalidArgument, "it says '{}', as no `hocket doctor` does", one_line(line).substr(0, 80));
  agent.network = fields[1];
  agent.addresses.assign(fields.begin() + 2, fields.end());
  return {};
}

// ---- The agent's side ----

std::string try_one(const std::vector<std::string>& fields, std::uint64_t own_network,
                    const std::vector<os::NetCandidate>& own) {
  std::vector<os::NetAddress> addresses;
  for (std::size_t i = 3; i < fields.size(); ++i) {
    const auto address = os::parse_net_address(fields[i]);
    if (address.ok()) addresses.push_back(*address);
  }
  const bool same = fields[2] == format("{:016x}", own_network);
  const std::vector<os::NetTarget> targets = os::targets_to(addresses, same, own);
  os::NetConnectOptions options;
  options.self = "this host";
  options.peer = "it";
  options.retry = false;
  const auto connection = os::connect_by_any(targets, options, {.deadline = Deadline::after(kConnectPatience)});
  return connection.ok() ? format("reached\t{}\t{}\n", fields[1], os::to_string(connection->peer.with_port(0)))
                         : format("failed\t{}\t{}\n", fields[1], one_line(connection.status().text()));
}

Status serve() {
  Lines lines(STDIN_FILENO);
  HOCKET_ASSIGN(const std::string first, lines.next(Deadline::never()));
  const std::vector<std::string> settings = fields_of(first);
  if (settings.size() != 3 || settings[0] != "settings")
    return error(Code::kInvalidArgument, "--agent is for `hocket doctor --hosts`");
  HOCKET_ASSIGN(const os::InterfaceFilter filter, os::InterfaceFilter::parse(settings[1]));
  HOCKET_ASSIGN(const os::PortRange ports, os::PortRange::parse(settings[2]));
  HOCKET_ASSIGN(const std::vector<os::NetCandidate> own, os::usable_candidates(filter));
  HOCKET_ASSIGN(const std::uint64_t network, os::network_identity());
  std::vector<os::NetAddress> addresses;
  for (const os::NetCandidate& one : own) addresses.push_back(one.address);
  // Connections are made by the kernel; nobody has to accept them.
  HOCKET_ASSIGN(const os::NetListener listener, os::NetListener::listen(addresses, ports));
  std::string here = format("here\t{:016x}", network);
  for (const os::NetAddress& one : listener.addresses()) here += "\t" + os::to_string(one);
  if (!write_all(STDOUT_FILENO, here + "\n")) return {};
  for (;;) {
    const auto line = lines.next(Deadline::never());
    if (!line.ok()) return {};
    const std::vector<std::string> fields = fields_of(*line);
    if (fields.size() < 3 || fields[0] != "try") return error(Code::kInvalidArgument, "it was told something else");
    if (!write_all(STDOUT_FILENO, try_one(fields, network, own))) return {};
  }
}

}  // namespace

std::vector<Finding> try_hosts(const ReachOptions& options) {
  std::vector<Finding> found;
  const auto add = [&found](Severity severity, std::string seen, std::string cost, std::string mend) {
    found.push_back({severity, "hosts", std::move(seen), std::move(cost), std::move(mend)});
  };
  ::signal(SIGPIPE, SIG_IGN);
  std::vector<Agent> agents(options.hosts.size());
  for (std::size_t i = 0; i < agents.size(); ++i) {
    agents[i].host = options.hosts[i];
    const Status status = start(options, agents[i]);
    if (!status.ok()) agents[i].unable = std::string(status.text());
  }
  const Deadline answered = Deadline::after(options.start_patience);
  for (Agent& agent : agents) {
    if (agent.unable.empty()) {
      const Status status = hear(agent, answered);
      if (status.code() == Code::kPeerLost) {
        agent.unable = "`hocket doctor` can't be started there" + agent.ending();
      } else if (status.code() == Code::kTimeout) {
        agent.unable = format("no answer within {} s", options.start_patience.count() / 1000);
      } else if (!status.ok()) {
        agent.unable = std::string(status.text());
      }
    }
    if (agent.unable.empty()) continue;
    const std::vector<std::string> words = run::launcher_words(options.launcher, agent.host);
    add(Severity::kError, format("{} takes no part: {}", agent.host, one_line(agent.unable)),
        "`hocket run` can't start ranks there, or they find no way out",
        format("{} {} doctor tells more", join(words, " "), options.hocket));
  }
  int reached = 0;
  for (Agent& from : agents) {
    if (!from.unable.empty()) continue;
    for (std::size_t to = 0; to < agents.size(); ++to) {
      const Agent& other = agents[to];
      if (&other == &from || !other.unable.empty()) continue;
      std::string request = format("try\t{}\t{}", to, other.network);
      for (const std::string& address : other.addresses) request += "\t" + address;
      Result<std::string> answer = error(Code::kPeerLost, "its `hocket doctor` ended");
      std::vector<std::string> fields;
      if (write_all(from.input.get(), request + "\n")) {
        // An answer that was given up comes late, and is not this one's.
        const Deadline deadline = Deadline::after(kConnectPatience + std::chrono::seconds(5));
        do {
          answer = from.lines->next(deadline);
          fields = answer.ok() ? fields_of(*answer) : std::vector<std::string>();
        } while (fields.size() == 3 && fields[1] != std::to_string(to) && !deadline.passed());
      }
      if (fields.size() == 3 && fields[0] == "reached") {
        ++reached;
        continue;
      }
      add(Severity::kError,
          format("{} does not reach {}: {}", from.host, other.host,
                 one_line(fields.size() == 3 ? std::string_view(fields[2])
                          : answer.ok()      ? std::string_view(*answer)
                                             : answer.status().text())),
          "jobs with ranks on both do not start",
          "open the firewall for a range of ports and say HOCKET_PORTS=FIRST-LAST, or HOCKET_INTERFACE for the network "
          "that joins them");
    }
  }
  if (found.empty()) {
    add(Severity::kFine,
        agents.size() < 2 ? format("{} can be started on", agents.empty() ? "" : agents.front().host)
                          : format("{} hosts, all {} ways between them work", agents.size(), reached),
        {}, {});
  }
  return found;
}

int run_reach_agent() {
  const Status status = serve();
  if (status.ok()) return 0;
  (void)write_all(STDOUT_FILENO, format("unable\t{}\n", one_line(status.text())));
  return 1;
}

}  // namespace hocket::doctor
