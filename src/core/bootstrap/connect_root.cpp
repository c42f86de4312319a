// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/connect_root.hpp"

#include <algorithm>

#include "base/os/random.hpp"
#include "base/status.hpp"
#include "core/bootstrap/root_address.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

Result<FrameStream> connect(std::span<const os::NetAddress> addresses, std::uint64_t network, const std::string& peer,
                            os::Hello mine, std::optional<std::uint64_t> token, const Secret& secret,
                            const std::string& self, const std::string& interfaces, const os::WaitLimits& limits) {
  HOCKET_ASSIGN(const std::vector<os::NetInterface> all, os::list_interfaces());
  HOCKET_ASSIGN(const os::InterfaceFilter filter, os::InterfaceFilter::parse(interfaces));
  const std::vector<os::NetCandidate> own = os::order_candidates(all, filter);
  HOCKET_ASSIGN(const std::uint64_t own_network, os::network_identity());
  // Who cannot know the network of the other (0) tries everything.
  const auto targets = os::targets_to(addresses, network == 0 || network == own_network, own);
  os::Hello other;
  os::NetConnectOptions options{.self = self, .peer = peer, .verify = {}};
  options.verify = [&](os::NetConnection& connection) -> Status {
    HOCKET_TRY(os::random_bytes(mine.nonce));
    // One that listens and says nothing must not keep the other candidates from their turn for long.
    const os::WaitLimits little{.deadline = std::min(limits.deadline, os::Deadline::after(5s)), .abort = limits.abort};
    HOCKET_ASSIGN(other, os::shake_hands(connection.fd.get(), os::Handshake::Role::kConnect, mine, secret, little));
    if (token && other.token != *token) {
      return error(Code::kPeerLost, "{} answered, another process of this job", other.name());
    }
    return {};
  };
  HOCKET_ASSIGN(os::NetConnection connection, os::connect_by_any(targets, options, limits));
  return FrameStream(std::move(connection.fd), other);
}

}  // namespace

Result<FrameStream> connect_to_root(const UniqueId& root, os::Hello mine, const std::string& self,
                                    const std::string& interfaces, const os::WaitLimits& limits) {
  HOCKET_ASSIGN(const RootAddress address, RootAddress::of(root));
  mine.purpose = kToRoot;
  return connect(address.net_addresses(), address.network, "the root of the unique id", mine, std::nullopt,
                 Secret(address.secret), self, interfaces, limits);
}

Result<FrameStream> connect_to_leader(const LeaderCard& card, os::Hello mine, const Secret& secret,
                                      const std::string& self, const std::string& interfaces,
                                      const os::WaitLimits& limits) {
  mine.purpose = kBetweenLeaders;
  return connect(card.net_addresses(), card.network, card.name(), mine, card.token, secret, self, interfaces, limits);
}

}  // namespace hocket
