// SPDX-License-Identifier: Apache-2.0
// net_address.hpp: addresses of IP networks, the interfaces of this host, and which of their addresses others should
// try.
//
// A host has more addresses than lead to it: bridges of containers, interfaces with no cable, addresses that are only
// good on one link. order_candidates() puts the likely ones first and says for each why it stands where it does; what
// really works is found by connecting (net_socket.hpp). Next stop: net_socket.hpp.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"

namespace hocket::os {

/// One end of an IP connection. IPv4 is written as IPv6 (::ffff:a.b.c.d), so that all addresses are 16 bytes. A value
/// of fixed layout with no padding: it may travel, though `scope` means something only on the host that wrote it.
struct NetAddress {
  std::array<std::uint8_t, 16> bytes{};  ///< network order
  std::uint32_t scope = 0;               ///< of a link-local IPv6 address: index of the interface on this host; else 0
  std::uint16_t port = 0;                ///< host order; 0 is none, or any
  std::uint16_t reserved = 0;

  bool is_ipv4() const noexcept;
  bool is_loopback() const noexcept;    ///< 127.0.0.0/8, ::1
  bool is_link_local() const noexcept;  ///< 169.254.0.0/16, fe80::/10
  bool is_any() const noexcept;         ///< 0.0.0.0, ::

  NetAddress with_port(std::uint16_t new_port) const noexcept {
    NetAddress copy = *this;
    copy.port = new_port;
    return copy;
  }
  /// The same, but for the port.
  bool same_host(const NetAddress& other) const noexcept { return bytes == other.bytes && scope == other.scope; }

  friend bool operator==(const NetAddress&, const NetAddress&) noexcept = default;
};
static_assert(sizeof(NetAddress) == 24);

/// "10.0.0.7:4411", "[fe80::1%eth0]:4411"; without the port where it is 0. The scope is named where this host has such
/// an interface and is a number otherwise.
std::string to_string(const NetAddress& address);

/// Back again, with or without a port; brackets are needed only around an IPv6 address with one. No names are looked
/// up. Errors: kInvalidArgument with the text and what is wrong in it.
Result<NetAddress> parse_net_address(std::string_view text);

/// What the kernel takes. sockaddr_in for IPv4, so that hosts without IPv6 work.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
};
SocketAddress to_socket_address(const NetAddress& address) noexcept;
/// Errors: kUnsupported if it is no IP address.
Result<NetAddress> from_socket_address(const sockaddr* address);

/// One address of one interface of this host.
struct NetInterface {
  int index = 0;
  std::string name;
  unsigned flags = 0;  ///< IFF_…
  NetAddress address;
  int prefix_bits = 0;  ///< of the IPv4 or the IPv6 address
};

/// All of them, in the kernel's order, also those that are down. Errors: kSystem.
Result<std::vector<NetInterface>> list_interfaces();

/// A number that is equal in two processes if they see the same network (kernel and network namespace): their loopback
/// is one, and an address of one is an address of the other. Errors: kSystem.
Result<std::uint64_t> network_identity();

/// Which interfaces HOCKET_INTERFACE allows. As in NCCL: "eth,ib" names that begin so, "=eth0,eth1" exactly these,
/// "^docker" all but those that begin so, "^=docker0" all but exactly this; the signs hold for the whole list. A value.
class InterfaceFilter {
 public:
  /// Allows everything but loopback.
  InterfaceFilter() = default;
  /// Errors: kInvalidArgument with what is wrong.
  static Result<InterfaceFilter> parse(std::string_view text);

  bool allows(std::string_view name) const noexcept;
  /// Whether the list names what is wanted (not what isn't): then an interface in it is meant, whatever its kind.
  bool is_choice() const noexcept { return !names_.empty() && !exclude_; }
  const std::string& text() const noexcept { return text_; }
  const std::vector<std::string>& names() const noexcept { return names_; }
  bool exact() const noexcept { return exact_; }

 private:
  std::string text_;
  std::vector<std::string> names_;
  bool exclude_ = false;
  bool exact_ = false;
};

/// How good an address is for others, best first.
enum class NetReach : std::uint8_t {
  kRoutable,          ///< an ordinary address of an ordinary interface
  kLinkLocal,         ///< reaches only whoever is on the same link
  kVirtual,           ///< of a bridge or pair for containers or virtual machines: seldom leads anywhere
  kVirtualLinkLocal,  ///< both
  kLoopback,          ///< reaches only this host
  kUnusable,          ///< down, without a cable, or excluded by HOCKET_INTERFACE
};

struct NetCandidate {
  NetAddress address;
  std::string interface;
  NetReach reach = NetReach::kUnusable;
  std::string reason;  ///< why it is what it is: "up", "docker0 is a bridge of containers", "no carrier", …

  bool usable() const noexcept { return reach != NetReach::kUnusable; }
};

/// Every address in `interfaces`, best first, the unusable ones last. Pure but for one warning, the first time, for an
/// entry of the filter that several interfaces begin with.
std::vector<NetCandidate> order_candidates(std::span<const NetInterface> interfaces, const InterfaceFilter& filter);

/// This host's candidates. Errors: kSystem; kInvalidArgument if none is usable, with one line for each.
Result<std::vector<NetCandidate>> usable_candidates(const InterfaceFilter& filter);

/// One line for each: "\n  10.0.0.7 on eth0: routable". For errors.
std::string describe_candidates(std::span<const NetCandidate> candidates);

/// HOCKET_PORTS: the ports to listen on, both included; 0-0 leaves it to the kernel. A value.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool any() const noexcept { return first == 0; }
  /// "first-last", one number, or empty. Errors: kInvalidArgument.
  static Result<PortRange> parse(std::string_view text);
  friend bool operator==(const PortRange&, const PortRange&) noexcept = default;
};

}  // namespace hocket::os
