// SPDX-License-Identifier: Apache-2.0
// meeting.cpp: ranks that a launcher gave an id meet once, and keep their exchange.
#include <netdb.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/log.hpp"
#include "base/os/process.hpp"
#include "base/status.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/bootstrap/root.hpp"
#include "core/bootstrap/root_address.hpp"
#include "core/launch/launchers.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

class Meeting {
 public:
  Status exchange(const LaunchedRank& who, const Settings& settings,
                  const std::function<Result<std::vector<UniqueId>>()>& ids, const std::function<void()>& met,
                  std::span<const std::byte> mine, std::span<std::byte> all) {
    const std::lock_guard lock(mutex_);
    if (fork_mark_.forked()) {
      return error(Code::kUnsupported,
                   "this process was forked from rank {}: its place among the ranks stays with the rank itself",
                   who.rank);
    }
    if (!broken_.ok()) return broken_;
    const bool first = !bootstrap_;
    if (first) {
      if (Status joined = join(who, settings, ids); !joined.ok())
        return broken_ = error(joined.code(), "rank {} of {}, started by {}: {}", who.rank, who.size, who.launcher,
                               joined.text());
    }
    Status status = bootstrap_->exchange(mine, all);
    if (!status.ok() && status.code() != Code::kInvalidArgument) broken_ = status;
    if (first && status.ok() && met) met();
    return status;
  }

 private:
  Status join(const LaunchedRank& who, const Settings& settings,
              const std::function<Result<std::vector<UniqueId>>()>& ids) {
    HOCKET_ASSIGN(const std::vector<UniqueId> all, ids());
    HOCKET_ASSIGN(bootstrap_, Bootstrap::join(all, who.rank, who.size, settings));
    return {};
  }

  os::ForkMark fork_mark_;
  std::mutex mutex_;  // one exchange at a time; guards what follows
  std::shared_ptr<Bootstrap> bootstrap_;
  Status broken_;
};

}  // namespace

Exchange exchange_by_ids(const LaunchedRank& who, const Settings& settings,
                         std::function<Result<std::vector<UniqueId>>()> ids, std::function<void()> met) {
  // Never destroyed: other threads may be in an exchange while the process exits.
  static std::mutex& mutex = *new std::mutex;
  static auto& meetings = *new std::map<std::string, std::shared_ptr<Meeting>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Meeting>& meeting = meetings[format("{} {}/{}", who.launcher, who.rank, who.size)];
  if (!meeting) meeting = std::make_shared<Meeting>();
  LaunchedRank rank = who;
  rank.exchange = nullptr;
  return [meeting = meeting, rank, settings, ids = std::move(ids), met = std::move(met)](
             std::span<const std::byte> mine, std::span<std::byte> all) {
    return meeting->exchange(rank, settings, ids, met, mine, all);
  };
}

Result<std::vector<os::NetAddress>> look_up(const std::string& host, int port, const os::WaitLimits& limits) {
  std::string name = host;
  if (auto address = os::parse_net_address(host); address.ok()) {
    if (address->port == 0) address->port = static_cast<std::uint16_t>(port);
    return std::vector<os::NetAddress>{*address};
  }
  if (const std::size_t colon = name.rfind(':'); colon != std::string::npos) {
    const auto own = os::parse_net_address("127.0.0.1" + name.substr(colon));
    if (!own.ok() || own->port == 0)
      return error(Code::kInvalidArgument, "'{}' is no host, host:port or address", host);
    port = own->port;
    name.resize(colon);
  }
  if (port <= 0 || port > 65535) return error(Code::kInvalidArgument, "'{}' lacks a port", host);
  for (;;) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int problem = ::getaddrinfo(name.c_str(), nullptr, &hints, &list);
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
    std::vector<os::NetAddress> all;
    for (const addrinfo* entry = list; problem == 0 && entry; entry = entry->ai_next) {
      auto address = os::from_socket_address(entry->ai_addr);
      if (!address.ok() || all.size() == RootAddress::kMaxAddresses) continue;
      all.push_back(address->with_port(static_cast<std::uint16_t>(port)));
    }
    if (!all.empty()) return all;
    const Status waited =
        os::sleep_until({.deadline = std::min(limits.deadline, os::Deadline::after(500ms)), .abort = limits.abort});
    HOCKET_TRY(waited);
    if (limits.deadline.passed()) {
      return error(Code::kTimeout, "'{}' has no address: {}", name,
                   problem == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(problem));
    }
  }
}

Result<std::vector<UniqueId>> id_at(const std::string& host, int port, std::string_view port_variable,
                                    const std::string& otherwise, const LaunchedRank& who, const Settings& settings) {
  std::string secret_text = text_of("HOCKET_SECRET");
  if (secret_text.empty()) {
    if (who.rank == 0) {
      HOCKET_LOG(LogLevel::kWarn,
                 "HOCKET_SECRET is not set: whoever reaches {} port {} can join this job; set it to the same random "
                 "text on all ranks",
                 host, port);
    }
    secret_text = otherwise;
  }
  const Secret secret = Secret::of_text("hocket " + secret_text);
  const os::WaitLimits limits{.deadline = os::Deadline::after_or_never(settings.start_timeout)};
  HOCKET_ASSIGN(const std::vector<os::NetAddress> addresses, look_up(host, port, limits));
  if (who.rank == 0) {
    RootOptions options;
    options.ports = {addresses.front().port, addresses.front().port};
    options.addresses = addresses;
    auto id = open_root(secret, settings, options);
    if (!id.ok()) {
      return error(id.status().code(), "port {} ({}) for the other ranks: {}", addresses.front().port, port_variable,
                   id.status().text());
    }
    return std::vector<UniqueId>{*id};
  }
  RootAddress root;
  root.port = addresses.front().port;
  for (const os::NetAddress& address : addresses) root.addresses[root.address_count++] = address.bytes;
  std::copy(secret.bytes().begin(), secret.bytes().end(), root.secret.begin());
  return std::vector<UniqueId>{root.to_id()};
}

}  // namespace hocket
