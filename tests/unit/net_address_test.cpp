// SPDX-License-Identifier: Apache-2.0
// net_address_test.cpp: addresses as text, and which of a host's addresses come first.
#include "base/os/net_address.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

namespace hocket::os {
namespace {

NetAddress address(std::string_view text) {
  auto parsed = parse_net_address(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  return parsed.ok() ? *parsed : NetAddress();
}

NetInterface interface(std::string name, std::string_view text, unsigned flags = IFF_UP | IFF_RUNNING) {
  return {.index = 1, .name = std::move(name), .flags = flags, .address = address(text), .prefix_bits = 24};
}

std::vector<std::string> order(std::span<const NetInterface> interfaces, std::string_view filter = {}) {
  auto parsed = InterfaceFilter::parse(filter);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  std::vector<std::string> names;
  for (const NetCandidate& c : order_candidates(interfaces, *parsed))
    names.push_back((c.usable() ? "" : "-") + c.interface);
  return names;
}

using Names = std::vector<std::string>;

TEST(NetAddress, TextGoesBothWays) {
  for (const std::string_view text : {"10.0.0.7:4411", "10.0.0.7", "[2001:db8::1]:4411", "2001:db8::1", "::1",
                                      "[::1]:65535", "0.0.0.0:1", "[fe80::1%4000000000]:5"}) {
    EXPECT_EQ(to_string(address(text)), text);
  }
  EXPECT_EQ(to_string(address("[10.0.0.7]:5")), "10.0.0.7:5");
  EXPECT_EQ(to_string(address("::ffff:10.0.0.7")), "10.0.0.7");
  EXPECT_EQ(to_string(address("fe80::1%lo")), "fe80::1%lo");
}

TEST(NetAddress, WhatIsNoneIsRefused) {
  for (const std::string_view text :
       {"", ":", "host", "10.0.0.7:", "10.0.0.7:65536", "10.0.0.7:-1", "10.0.0.7:4x", "10.0.0", "[::1", "[::1]5",
        "[::1]:", "::1::2", "10.0.0.7%lo", "fe80::1%nothing-of-this-name", "fe80::1%", "[]:5", "[]"}) {
    const auto parsed = parse_net_address(text);
    EXPECT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
  }
  EXPECT_FALSE(parse_net_address(std::string(100'000, ':')).ok());
}

TEST(NetAddress, KernelFormGoesBothWays) {
  for (const std::string_view text : {"10.0.0.7:4411", "[2001:db8::1]:4411", "[fe80::1%1]:7"}) {
    const SocketAddress kernel = to_socket_address(address(text));
    EXPECT_EQ(kernel.family(), address(text).is_ipv4() ? AF_INET : AF_INET6);
    const auto back = from_socket_address(kernel.get());
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, address(text));
  }
  EXPECT_FALSE(from_socket_address(nullptr).ok());
}

TEST(NetAddress, KindsAreTold) {
  EXPECT_TRUE(address("127.3.4.5").is_loopback());
  EXPECT_TRUE(address("::1").is_loopback());
  EXPECT_FALSE(address("::2").is_loopback());
  EXPECT_FALSE(address("128.0.0.1").is_loopback());
  EXPECT_TRUE(address("169.254.1.1").is_link_local());
  EXPECT_TRUE(address("febf::1").is_link_local());
  EXPECT_FALSE(address("fec0::1").is_link_local());
  EXPECT_TRUE(address("0.0.0.0").is_any());
  EXPECT_TRUE(address("::").is_any());
  EXPECT_FALSE(address("::1").is_any());
}

TEST(NetCandidates, RoutableBeforeLinkLocalBeforeBridgesBeforeLoopbackBeforeWhatIsDown) {
  const std::vector<NetInterface> all = {
      interface("lo", "127.0.0.1", IFF_UP | IFF_RUNNING | IFF_LOOPBACK),
      interface("docker0", "172.17.0.1"),
      interface("virbr0", "192.168.122.1"),
      interface("br0", "10.9.0.1", IFF_UP),
      interface("eth2", "10.8.0.1", 0),
      interface("eth1", "fe80::1"),
      interface("vethab12", "fe80::2"),
      interface("eth0", "10.0.0.1"),
      interface("ib0", "2001:db8::1"),
  };
  EXPECT_EQ(order(all), (Names{"eth0", "ib0", "eth1", "docker0", "virbr0", "vethab12", "lo", "-br0", "-eth2"}));
  for (const NetCandidate& c : order_candidates(all, {})) EXPECT_FALSE(c.reason.empty()) << c.interface;
}

TEST(NetCandidates, FilterIsNcclsList) {
  const std::vector<NetInterface> all = {interface("eth0", "10.0.0.1"), interface("eth0.7", "10.0.0.2"),
                                         interface("ib0", "10.0.0.3")};
  EXPECT_EQ(order(all, "eth"), (Names{"eth0", "eth0.7", "-ib0"}));
  EXPECT_EQ(order(all, "=eth0"), (Names{"eth0", "-eth0.7", "-ib0"}));
  EXPECT_EQ(order(all, "=eth0,ib0"), (Names{"eth0", "ib0", "-eth0.7"}));
  EXPECT_EQ(order(all, "=eth0,=ib0"), (Names{"eth0", "ib0", "-eth0.7"}));
  EXPECT_EQ(order(all, "^eth"), (Names{"ib0", "-eth0", "-eth0.7"}));
  EXPECT_EQ(order(all, "^eth,ib"), (Names{"-eth0", "-eth0.7", "-ib0"}));
  EXPECT_EQ(order(all, "^=eth0"), (Names{"eth0.7", "ib0", "-eth0"}));
  for (const std::string_view text : {"^", "=", "eth,", ",", "eth,^ib", "eth,=ib", "a-name-that-is-too-long"}) {
    EXPECT_FALSE(InterfaceFilter::parse(text).ok()) << text;
  }
}

TEST(NetCandidates, NothingUsableIsAnErrorWithAllOfThem) {
  const auto filter = InterfaceFilter::parse("=no-such-one");
  ASSERT_TRUE(filter.ok());
  const auto candidates = usable_candidates(*filter);
  ASSERT_FALSE(candidates.ok());
  const std::string text(candidates.status().text());
  const auto interfaces = list_interfaces();
  ASSERT_TRUE(interfaces.ok());
  for (const NetInterface& i : *interfaces) {
    EXPECT_NE(text.find(to_string(i.address) + " on " + i.name + ": "), std::string::npos) << text;
  }
}

TEST(NetInterfaces, LoopbackIsThere) {
  const auto interfaces = list_interfaces();
  ASSERT_TRUE(interfaces.ok()) << interfaces.status().to_string();
  bool found = false;
  for (const NetInterface& i : *interfaces) {
    EXPECT_GT(i.index, 0);
    if (i.address.same_host(address("127.0.0.1"))) found = i.prefix_bits == 8 && (i.flags & IFF_LOOPBACK);
  }
  EXPECT_TRUE(found);
}

TEST(NetworkIdentity, IsEqualInOneNetwork) {
  const auto a = network_identity(), b = network_identity();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*a, *b);
}

TEST(PortRange, IsOneOrTwoNumbers) {
  EXPECT_TRUE(PortRange::parse("")->any());
  EXPECT_EQ(*PortRange::parse("4000-4010"), (PortRange{4000, 4010}));
  EXPECT_EQ(*PortRange::parse("65535"), (PortRange{65535, 65535}));
  for (const std::string_view text : {"0", "0-5", "5-4", "-", "5-", "-5", "65536", "1-2-3", "x", " 5"}) {
    EXPECT_FALSE(PortRange::parse(text).ok()) << text;
  }
}

}  // namespace
}  // namespace hocket::os
