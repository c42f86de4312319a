// SPDX-License-Identifier: Apache-2.0
// net_socket_test.cpp: TCP on this host's loopback: listening at one port, and the race of candidates.
#include "base/os/net_socket.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "base/os/socket.hpp"
#include "base/status.hpp"

namespace hocket::os {
namespace {

using namespace std::chrono_literals;

WaitLimits patient() {
  return {.deadline = Deadline::after(60s)};
}

NetAddress address(std::string_view text) {
  return parse_net_address(text).value();
}

NetListener listen_at(std::string_view text, PortRange ports = {}) {
  const NetAddress where = address(text);
  auto listener = NetListener::listen(std::span(&where, 1), ports);
  EXPECT_TRUE(listener.ok()) << listener.status().to_string();
  return std::move(listener).value();
}

// A port of 127.0.0.1 that nobody listens on.
NetAddress closed_port() {
  return listen_at("127.0.0.1").addresses().front();
}

NetTarget target(const NetAddress& where) {
  return {.address = where, .interface = {}, .skipped = {}};
}

TEST(NetListener, AllAddressesHaveOnePort) {
  const std::vector<NetAddress> addresses = {address("127.0.0.1"), address("127.0.0.2"), address("198.51.100.1")};
  auto listener = NetListener::listen(addresses, {});
  ASSERT_TRUE(listener.ok()) << listener.status().to_string();
  ASSERT_EQ(listener->addresses().size(), 2u);  // nobody has an address of the documentation's net
  EXPECT_NE(listener->port(), 0);
  for (const NetAddress& where : listener->addresses()) {
    EXPECT_EQ(where.port, listener->port());
    const NetTarget way = target(where);
    auto client = connect_by_any(std::span(&way, 1), {}, patient());
    ASSERT_TRUE(client.ok()) << client.status().to_string();
    auto server = listener->accept(patient());
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    EXPECT_EQ(server->local, where);
    EXPECT_EQ(server->peer, client->local);
    EXPECT_EQ(client->peer, where);
    std::byte byte{42}, got{};
    ASSERT_TRUE(send_all(client->fd.get(), std::span(&byte, 1), patient(), "server").ok());
    ASSERT_TRUE(receive_all(server->fd.get(), std::span(&got, 1), patient(), "client").ok());
    EXPECT_EQ(got, byte);
  }
  auto none = listener->accept_now();
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

TEST(NetListener, TakesAPortOfTheRangeAndSaysWhenNoneIsFree) {
  const NetListener taken = listen_at("127.0.0.1");
  const PortRange only{taken.port(), taken.port()};
  const NetAddress where = address("127.0.0.1");
  const auto second = NetListener::listen(std::span(&where, 1), only);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().text().find("HOCKET_PORTS"), std::string::npos) << second.status().text();
  if (taken.port() < 65500) {
    const NetListener next = listen_at("127.0.0.1", {taken.port(), static_cast<std::uint16_t>(taken.port() + 32)});
    EXPECT_GT(next.port(), taken.port());
    EXPECT_LE(next.port(), taken.port() + 32);
  }
}

TEST(NetListener, NoAddressOfThisHostIsAnError) {
  const NetAddress where = address("198.51.100.1");
  const auto listener = NetListener::listen(std::span(&where, 1), {});
  ASSERT_FALSE(listener.ok());
  EXPECT_NE(listener.status().text().find("198.51.100.1"), std::string::npos);
  EXPECT_FALSE(NetListener::listen({}, {}).ok());
}

TEST(NetListener, AnAbortEndsTheWait) {
  NetListener listener = listen_at("127.0.0.1");
  auto abort = AbortFlag::create();
  ASSERT_TRUE(abort.ok());
  std::thread other([&] { abort->raise(); });
  const auto connection = listener.accept({.deadline = Deadline::never(), .abort = &*abort});
  other.join();
  EXPECT_EQ(connection.status().code(), Code::kAborted);
}

TEST(ConnectByAny, ADeadCandidateDoesNotHoldUpTheNext) {
  NetListener listener = listen_at("127.0.0.1");
  // Addresses of the documentation's net lead nowhere: no answer, an error, or somebody else, depending on the machine.
  const std::vector<NetTarget> targets = {target(address("198.51.100.1:9")), target(closed_port()),
                                          target(listener.addresses().front())};
  NetConnectOptions options;
  options.verify = [&](NetConnection& connection) {
    return connection.peer == targets.back().address ? Status() : error(Code::kPeerLost, "it is somebody else");
  };
  auto client = connect_by_any(targets, options, patient());
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_EQ(client->peer, listener.addresses().front());
}

TEST(ConnectByAny, WhoeverFailsTheProofIsPassedOver) {
  NetListener wrong = listen_at("127.0.0.1"), right = listen_at("127.0.0.1");
  const std::vector<NetTarget> targets = {target(wrong.addresses().front()), target(right.addresses().front())};
  NetConnectOptions options;
  options.verify = [&](NetConnection& connection) {
    return connection.peer == right.addresses().front() ? Status() : error(Code::kPeerLost, "it is somebody else");
  };
  auto client = connect_by_any(targets, options, patient());
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_EQ(client->peer, right.addresses().front());

  options.retry = false;
  const auto none = connect_by_any(std::span(targets).first(1), options, patient());
  ASSERT_EQ(none.status().code(), Code::kPeerLost);
  EXPECT_NE(none.status().text().find("it is somebody else"), std::string::npos) << none.status().text();
}

TEST(ConnectByAny, WaitsForAListenerThatComesLater) {
  const NetAddress where = closed_port();
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    auto listener = NetListener::listen(std::span(&where, 1), {where.port, where.port});
    if (!listener.ok()) return;  // somebody took the port in between: the other side times out, and says so
    const auto connection = listener->accept(patient());
    EXPECT_TRUE(connection.ok()) << connection.status().to_string();
  });
  const NetTarget way = target(where);
  const auto client = connect_by_any(std::span(&way, 1), {}, patient());
  other.join();
  EXPECT_TRUE(client.ok()) << client.status().to_string();
}

TEST(ConnectByAny, FailureNamesBothSidesAndEveryCandidate) {
  NetTarget skipped = target(address("10.0.0.9:5"));
  skipped.skipped = "for a reason";
  const NetAddress closed = closed_port();
  const std::vector<NetTarget> targets = {skipped, target(closed)};
  const auto client = connect_by_any(targets, {.self = "rank 3", .peer = "rank 5 of host b", .verify = {}},
                                     {.deadline = Deadline::after(30ms)});
  ASSERT_EQ(client.status().code(), Code::kTimeout);
  const std::string text(client.status().text());
  for (const std::string& part :
       {std::string("rank 3"), std::string("rank 5 of host b"), std::string("10.0.0.9:5: not tried, for a reason"),
        to_string(closed), std::string("attempt"), std::string("Connection refused (errno 111)")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  EXPECT_EQ(connect_by_any({}, {}, patient()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(connect_by_any(std::span(targets).first(1), {}, patient()).status().code(), Code::kInvalidArgument);
}

TEST(ConnectByAny, AnAbortEndsTheRace) {
  auto abort = AbortFlag::create();
  ASSERT_TRUE(abort.ok());
  const NetTarget way = target(closed_port());
  std::thread other([&] {
    std::this_thread::sleep_for(20ms);
    abort->raise();
  });
  const auto client = connect_by_any(std::span(&way, 1), {}, {.deadline = Deadline::never(), .abort = &*abort});
  other.join();
  EXPECT_EQ(client.status().code(), Code::kAborted);
}

TEST(TargetsTo, LeavesOutWhatCannotLeadToThePeer) {
  const std::vector<NetCandidate> own = {
      {.address = address("10.0.0.1"), .interface = "eth0", .reach = NetReach::kRoutable, .reason = {}},
      {.address = address("fe80::1%1"), .interface = "lo", .reach = NetReach::kLinkLocal, .reason = {}},
      {.address = address("fe80::2%2"), .interface = "eth1", .reach = NetReach::kUnusable, .reason = {}},
      {.address = address("172.17.0.1"), .interface = "docker0", .reach = NetReach::kVirtual, .reason = {}},
  };
  const std::vector<NetAddress> theirs = {address("10.0.0.2:7"), address("[fe80::9%4]:7"), address("172.17.0.1:7"),
                                          address("127.0.0.1:7")};
  const auto far = targets_to(theirs, false, own);
  ASSERT_EQ(far.size(), 4u);
  EXPECT_EQ(far[0].skipped, "");
  EXPECT_EQ(far[0].address, theirs[0]);
  EXPECT_EQ(far[1].skipped, "");
  EXPECT_EQ(far[1].address.scope, 1u);  // this host's own, not the peer's
  EXPECT_EQ(far[1].interface, "lo");
  EXPECT_NE(far[2].skipped, "");
  EXPECT_NE(far[3].skipped, "");
  const auto near = targets_to(theirs, true, own);
  ASSERT_EQ(near.size(), 4u);
  for (const NetTarget& way : near) EXPECT_EQ(way.skipped, "");
  EXPECT_EQ(near[1].address.scope, 4u);
  EXPECT_NE(targets_to(std::span(theirs).subspan(1, 1), false, {})[0].skipped, "");
}

}  // namespace
}  // namespace hocket::os
