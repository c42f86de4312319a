// SPDX-License-Identifier: Apache-2.0
#include "base/os/net_address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "base/log.hpp"
#include "base/os/process.hpp"
#include "base/status.hpp"

namespace hocket::os {
namespace {

constexpr std::array<std::uint8_t, 12> kIpv4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

int prefix_of(const sockaddr* mask) {
  const std::uint8_t* bytes = nullptr;
  std::size_t count = 0;
  if (!mask) return 0;
  if (mask->sa_family == AF_INET) {
    bytes = reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr);
    count = 4;
  } else if (mask->sa_family == AF_INET6) {
    bytes = reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
    count = 16;
  }
  int bits = 0;
  for (std::size_t i = 0; i < count; ++i) bits += std::popcount(bytes[i]);
  return bits;
}

bool is_virtual(std::string_view name) {
  return name == "docker0" || name.starts_with("virbr") || name.starts_with("veth") || name.starts_with("br-");
}

// Interfaces are looked at often; once in a process is enough.
bool first_time(const std::string& wanted) {
  static std::mutex& mutex = *new std::mutex;
  static std::set<std::string>& told = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return told.insert(wanted).second;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return port;
}

}  // namespace

// ---- Addresses ----

bool NetAddress::is_ipv4() const noexcept {
  return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), bytes.begin());
}

bool NetAddress::is_loopback() const noexcept {
  if (is_ipv4()) return bytes[12] == 127;
  return std::all_of(bytes.begin(), bytes.end() - 1, [](std::uint8_t b) { return b == 0; }) && bytes[15] == 1;
}

bool NetAddress::is_link_local() const noexcept {
  if (is_ipv4()) return bytes[12] == 169 && bytes[13] == 254;
  return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool NetAddress::is_any() const noexcept {
  const auto first = bytes.begin() + (is_ipv4() ? 12 : 0);
  return std::all_of(first, bytes.end(), [](std::uint8_t b) { return b == 0; });
}

std::string to_string(const NetAddress& address) {
  char text[INET6_ADDRSTRLEN];
  if (address.is_ipv4()) {
    ::inet_ntop(AF_INET, address.bytes.data() + 12, text, sizeof text);
    return address.port == 0 ? std::string(text) : format("{}:{}", text, address.port);
  }
  ::inet_ntop(AF_INET6, address.bytes.data(), text, sizeof text);
  std::string all = text;
  if (address.scope != 0) {
    char name[IF_NAMESIZE];
    all += '%';
    all += ::if_indextoname(address.scope, name) ? std::string(name) : format("{}", address.scope);
  }
  return address.port == 0 ? all : format("[{}]:{}", all, address.port);
}

Result<NetAddress> parse_net_address(std::string_view text) {
  const auto malformed = [&](std::string_view why) {
    return error(Code::kInvalidArgument, "'{}' is no address of an IP network: {}", text, why);
  };
  if (text.empty() || text.size() > 128) return malformed("it needs 1 to 128 characters");
  std::string_view host = text, port;
  if (text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return malformed("a ] is missing");
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
    if (!port.empty() && port.front() != ':') return malformed("after the ] only a port may follow");
    if (port.size() == 1) return malformed("the port is missing");
    if (!port.empty()) port.remove_prefix(1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    const std::size_t colon = text.find(':');
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty()) return malformed("the port is missing");
  }
  NetAddress address;
  if (!port.empty()) {
    const auto number = parse_port(port);
    if (!number) return malformed("the port is no number from 0 to 65535");
    address.port = *number;
  }
  const std::size_t percent = host.find('%');
  const std::string plain(host.substr(0, percent));
  if (::inet_pton(AF_INET, plain.c_str(), address.bytes.data() + 12) == 1) {
    if (percent != std::string_view::npos) return malformed("only IPv6 addresses have a scope");
    std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), address.bytes.begin());
    return address;
  }
  if (::inet_pton(AF_INET6, plain.c_str(), address.bytes.data()) != 1) {
    return malformed("neither 10.0.0.7 nor fe80::1 is written so");
  }
  if (percent != std::string_view::npos) {
    const std::string scope(host.substr(percent + 1));
    address.scope = ::if_nametoindex(scope.c_str());
    if (address.scope == 0) {
      const auto [end, problem] = std::from_chars(scope.data(), scope.data() + scope.size(), address.scope);
      if (problem != std::errc() || end != scope.data() + scope.size() || address.scope == 0) {
        return malformed("no interface has the name after the %");
      }
    }
  }
  return address;
}

SocketAddress to_socket_address(const NetAddress& address) noexcept {
  SocketAddress result;
  if (address.is_ipv4()) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(address.port);
    std::memcpy(&in.sin_addr, address.bytes.data() + 12, 4);
    std::memcpy(&result.storage, &in, sizeof in);
    result.length = sizeof in;
    return result;
  }
  sockaddr_in6 in{};
  in.sin6_family = AF_INET6;
  in.sin6_port = htons(address.port);
  in.sin6_scope_id = address.scope;
  std::memcpy(&in.sin6_addr, address.bytes.data(), 16);
  std::memcpy(&result.storage, &in, sizeof in);
  result.length = sizeof in;
  return result;
}

Result<NetAddress> from_socket_address(const sockaddr* address) {
  NetAddress result;
  if (address && address->sa_family == AF_INET) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), result.bytes.begin());
    std::memcpy(result.bytes.data() + 12, &in.sin_addr, 4);
    result.port = ntohs(in.sin_port);
    return result;
  }
  if (address && address->sa_family == AF_INET6) {
    sockaddr_in6 in;
    std::memcpy(&in, address, sizeof in);
    std::memcpy(result.bytes.data(), &in.sin6_addr, 16);
    result.port = ntohs(in.sin6_port);
    if (result.is_link_local()) result.scope = in.sin6_scope_id;
    return result;
  }
  return error(Code::kUnsupported, "address family {} is no IP network", address ? address->sa_family : -1);
}

// ---- Interfaces ----

Result<std::vector<NetInterface>> list_interfaces() {
  ifaddrs* head = nullptr;
  if (::getifaddrs(&head) < 0) return system_error(Code::kSystem, errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(head, &::freeifaddrs);
  std::vector<NetInterface> all;
  for (const ifaddrs* entry = head; entry; entry = entry->ifa_next) {
    auto address = from_socket_address(entry->ifa_addr);
    if (!address.ok()) continue;  // link-layer entries, and interfaces without an address
    all.push_back({.index = static_cast<int>(::if_nametoindex(entry->ifa_name)),
                   .name = entry->ifa_name,
                   .flags = entry->ifa_flags,
                   .address = *address,
                   .prefix_bits = prefix_of(entry->ifa_netmask)});
  }
  return all;
}

Result<std::uint64_t> network_identity() {
  HOCKET_ASSIGN(const std::string boot, boot_id());
  struct stat info {};
  if (::stat("/proc/self/ns/net", &info) < 0) return system_error(Code::kSystem, errno, "stat of /proc/self/ns/net");
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : format("{}/{}/{}", boot, info.st_dev, info.st_ino)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

Result<InterfaceFilter> InterfaceFilter::parse(std::string_view text) {
  InterfaceFilter filter;
  filter.text_ = std::string(text);
  if (text.empty()) return filter;
  const auto malformed = [&](std::string_view why) {
    return error(Code::kInvalidArgument,
                 "HOCKET_INTERFACE='{}' is not understood: {}; write eth,ib for names that begin so, =eth0 for exactly "
                 "this one, ^docker for all but those",
                 filter.text_, why);
  };
  if (text.starts_with('^')) filter.exclude_ = true, text.remove_prefix(1);
  if (text.starts_with('=')) filter.exact_ = true, text.remove_prefix(1);
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    // The signs may be repeated before each name, as long as they say the same.
    if (!filter.names_.empty()) {
      const bool exclude = name.starts_with('^');
      if (exclude) name.remove_prefix(1);
      const bool exact = name.starts_with('=');
      if (exact) name.remove_prefix(1);
      if ((exclude && !filter.exclude_) || (exact && !filter.exact_)) {
        return malformed("^ and = hold for the whole list and stand before its first name");
      }
    }
    if (name.empty()) return malformed("a name is missing");
    if (name.size() >= IF_NAMESIZE) return malformed("a name is longer than any interface's");
    filter.names_.emplace_back(name);
  }
  return filter;
}

bool InterfaceFilter::allows(std::string_view name) const noexcept {
  if (names_.empty()) return true;
  const bool listed = std::any_of(names_.begin(), names_.end(), [&](const std::string& wanted) {
    return exact_ ? name == wanted : name.starts_with(wanted);
  });
  return listed != exclude_;
}

std::vector<NetCandidate> order_candidates(std::span<const NetInterface> interfaces, const InterfaceFilter& filter) {
  if (filter.is_choice() && !filter.exact()) {
    for (const std::string& wanted : filter.names()) {
      std::vector<std::string> names;
      for (const NetInterface& i : interfaces) {
        if (i.name.starts_with(wanted) && std::find(names.begin(), names.end(), i.name) == names.end())
          names.push_back(i.name);
      }
      if (names.size() > 1 && first_time(wanted)) {
        HOCKET_LOG(LogLevel::kWarn,
                   "HOCKET_INTERFACE={} matches {} interfaces, {}: write ={} if only that one is meant", wanted,
                   names.size(), join(names, ", "), wanted);
      }
    }
  }
  std::vector<NetCandidate> all;
  for (const NetInterface& i : interfaces) {
    NetCandidate candidate{.address = i.address.with_port(0), .interface = i.name, .reason = {}};
    if (!(i.flags & IFF_UP)) {
      candidate.reason = "not used, the interface is down";
    } else if (!(i.flags & IFF_RUNNING)) {
      candidate.reason = "not used, the interface has no carrier";
    } else if (!filter.allows(i.name)) {
      candidate.reason = format("not used, HOCKET_INTERFACE={} excludes it", filter.text());
    } else if (i.flags & IFF_LOOPBACK || i.address.is_loopback()) {
      candidate.reach = NetReach::kLoopback;
      candidate.reason = "loopback, only for this host itself";
    } else if (is_virtual(i.name)) {
      const bool link_local = i.address.is_link_local();
      candidate.reach = link_local ? NetReach::kVirtualLinkLocal : NetReach::kVirtual;
      candidate.reason = format("late, {} is named as those of containers and virtual machines are{}", i.name,
                                link_local ? " and the address is link-local" : "");
    } else if (i.address.is_link_local()) {
      candidate.reach = NetReach::kLinkLocal;
      candidate.reason = "link-local, only for hosts on the same link";
    } else {
      candidate.reach = NetReach::kRoutable;
      candidate.reason = "routable";
    }
    all.push_back(std::move(candidate));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const NetCandidate& a, const NetCandidate& b) { return a.reach < b.reach; });
  return all;
}

Result<std::vector<NetCandidate>> usable_candidates(const InterfaceFilter& filter) {
  HOCKET_ASSIGN(const std::vector<NetInterface> interfaces, list_interfaces());
  std::vector<NetCandidate> all = order_candidates(interfaces, filter);
  const auto end =
      std::find_if(all.begin(), all.end(), [](const NetCandidate& candidate) { return !candidate.usable(); });
  if (end == all.begin()) {
    return error(Code::kInvalidArgument, "no address of this host can be used{}{}", all.empty() ? ": it has none" : ":",
                 describe_candidates(all));
  }
  all.erase(end, all.end());
  return all;
}

std::string describe_candidates(std::span<const NetCandidate> candidates) {
  std::string text;
  for (const NetCandidate& c : candidates) {
    text += format("\n  {} on {}: {}", to_string(c.address), c.interface, c.reason);
  }
  return text;
}

Result<PortRange> PortRange::parse(std::string_view text) {
  if (text.empty()) return PortRange();
  const std::size_t dash = text.find('-');
  const auto first = parse_port(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_port(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) {
    return error(Code::kInvalidArgument,
                 "HOCKET_PORTS='{}' is not understood: it takes first-last or one port, from 1 to 65535", text);
  }
  return PortRange{*first, *last};
}

}  // namespace hocket::os
