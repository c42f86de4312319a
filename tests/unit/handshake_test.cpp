// SPDX-License-Identifier: Apache-2.0
// handshake_test.cpp: HMAC-SHA-256 against published values, and who gets through a handshake.
#include "base/os/handshake.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <random>
#include <thread>

#include "base/format.hpp"
#include "base/os/socket.hpp"
#include "base/os/unique_fd.hpp"

namespace hocket::os {
namespace {

using namespace std::chrono_literals;

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) text += format("{:02x}", static_cast<unsigned>(b));
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(Hmac, IsWhatRfc4231Says) {
  EXPECT_EQ(hex(sha256(bytes_of("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(hmac_sha256(bytes_of(std::string(20, '\x0b')), {bytes_of("Hi There")})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256(bytes_of("Jefe"), {bytes_of("what do ya want "), bytes_of("for nothing?")})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(bytes_of(std::string(131, '\xaa')),
                            {bytes_of("Test Using Larger Than Block-Size Key - Hash Key First")})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Hmac, ComparesAllBytes) {
  const Digest a = sha256(bytes_of("a"));
  EXPECT_TRUE(equal_in_constant_time(a, a));
  for (const std::size_t i : {0u, 15u, 31u}) {
    Digest b = a;
    b[i] ^= std::byte{1};
    EXPECT_FALSE(equal_in_constant_time(a, b));
  }
}

WaitLimits patient() {
  return {.deadline = Deadline::after(30s)};
}

struct Ends {
  UniqueFd connects, accepts;
};
Ends pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) std::abort();
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

struct Both {
  Result<Hello> connects = Status(Code::kInternal, "not run"), accepts = Status(Code::kInternal, "not run");
};
Both shake(const Hello& a, const Secret& secret_a, const Hello& b, const Secret& secret_b) {
  Ends ends = pair();
  Both both;
  std::thread other([&] {
    both.accepts = shake_hands(ends.accepts.get(), Handshake::Role::kAccept, b, secret_b, patient());
    ends.accepts.reset();
  });
  both.connects = shake_hands(ends.connects.get(), Handshake::Role::kConnect, a, secret_a, patient());
  ends.connects.reset();
  other.join();
  return both;
}

TEST(Handshake, BothSidesKnowEachOther) {
  const Secret secret = Secret::random().value();
  const Both both = shake(make_hello(7, 11, 3).value(), secret, make_hello(7, 12, 5).value(), secret);
  ASSERT_TRUE(both.connects.ok()) << both.connects.status().to_string();
  ASSERT_TRUE(both.accepts.ok()) << both.accepts.status().to_string();
  EXPECT_EQ(both.connects->rank, 5);
  EXPECT_EQ(both.connects->token, 12u);
  EXPECT_EQ(both.accepts->rank, 3);
  EXPECT_EQ(both.accepts->token, 11u);
}

TEST(Handshake, AnotherSecretIsRefused) {
  const Both both = shake(make_hello(7, 0, 3).value(), Secret::random().value(), make_hello(7, 0, 5).value(),
                          Secret::random().value());
  ASSERT_FALSE(both.connects.ok());
  ASSERT_FALSE(both.accepts.ok());
  EXPECT_NE(both.connects.status().text().find("secret"), std::string_view::npos) << both.connects.status().text();
}

TEST(Handshake, AnotherVersionNamesBothSides) {
  const Secret secret = Secret::of_text("x");
  Hello old = make_hello(7, 0, 3).value();
  old.version = 99;
  std::strcpy(old.host.data(), "oldhost");
  // Whoever of the two is the older one, this side says both.
  const Both accepts = shake(old, secret, make_hello(7, 0, 5).value(), secret);
  ASSERT_EQ(accepts.accepts.status().code(), Code::kMismatch);
  for (const std::string_view part : {"rank 3", "oldhost", "99", "rank 5", "version 1"}) {
    EXPECT_NE(accepts.accepts.status().text().find(part), std::string_view::npos) << accepts.accepts.status().text();
  }
  const Both connects = shake(make_hello(7, 0, 5).value(), secret, old, secret);
  ASSERT_EQ(connects.connects.status().code(), Code::kMismatch) << connects.connects.status().to_string();
  EXPECT_NE(connects.connects.status().text().find("99"), std::string_view::npos);
}

TEST(Handshake, AnotherPurposeIsRefused) {
  const Secret secret = Secret::of_text("x");
  const Both both = shake(make_hello(1, 0, 3).value(), secret, make_hello(2, 0, 5).value(), secret);
  EXPECT_FALSE(both.connects.ok());
  EXPECT_FALSE(both.accepts.ok());
}

TEST(Handshake, AProofThatComesBackIsNone) {
  // Who answers with what it was sent knows no secret: reflection.
  const Secret secret = Secret::of_text("x");
  Ends ends = pair();
  std::thread mirror([&] {
    std::byte hello[sizeof(Hello)], proof[32] = {};
    EXPECT_TRUE(receive_all(ends.accepts.get(), hello, patient(), "peer").ok());
    EXPECT_TRUE(send_all(ends.accepts.get(), hello, patient(), "peer").ok());
    EXPECT_TRUE(send_all(ends.accepts.get(), proof, patient(), "peer").ok());
  });
  const auto result =
      shake_hands(ends.connects.get(), Handshake::Role::kConnect, make_hello(1, 0, 0).value(), secret, patient());
  mirror.join();
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << result.status().to_string();
}

TEST(Handshake, RandomBytesAreRefusedOnBothSides) {
  std::mt19937 random(7);
  const Secret secret = Secret::of_text("x");
  for (int i = 0; i < 200; ++i) {
    for (const auto role : {Handshake::Role::kConnect, Handshake::Role::kAccept}) {
      Ends ends = pair();
      std::vector<std::byte> noise(random() % 400);
      for (std::byte& b : noise) b = static_cast<std::byte>(random());
      // Half of them begin as a hello does.
      Hello hello;
      if (i % 2 == 0 && noise.size() > 12) std::memcpy(noise.data(), &hello, 12);
      ASSERT_TRUE(send_all(ends.connects.get(), noise, patient(), "peer").ok());
      ::shutdown(ends.connects.get(), SHUT_WR);
      const auto result = shake_hands(ends.accepts.get(), role, make_hello(1, 0, 0).value(), secret, patient());
      EXPECT_FALSE(result.ok());
      EXPECT_NE(result.status().code(), Code::kTimeout);
    }
  }
}

TEST(Handshake, ASilentPeerIsLeftAtTheDeadline) {
  Ends ends = pair();
  const auto result = shake_hands(ends.accepts.get(), Handshake::Role::kAccept, make_hello(1, 0, 0).value(),
                                  Secret::of_text("x"), {.deadline = Deadline::after(10ms)});
  EXPECT_EQ(result.status().code(), Code::kTimeout);
}

}  // namespace
}  // namespace hocket::os
