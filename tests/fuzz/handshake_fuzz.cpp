// SPDX-License-Identifier: Apache-2.0
// What strangers send to a listening socket: the handshake that guards it, from both sides, and the addresses, ports
// and interfaces that people write.
#include "base/os/handshake.hpp"

#include "base/os/net_address.hpp"
#include "fuzz/fuzz.hpp"

using namespace hocket;
using namespace hocket::os;

namespace {

void shake(Handshake::Role role, const std::uint8_t* data, std::size_t bytes) {
  Hello mine;
  mine.purpose = 1;
  const Secret secret = Secret::of_text("nobody knows it");
  Handshake handshake(role, mine, secret);
  // A header that is right gets the rest looked at.
  std::vector<std::uint8_t> message(data, data + bytes);
  if (bytes % 2 == 1 && message.size() >= sizeof(Hello)) {
    std::memcpy(message.data(), &Hello::kMagic, sizeof Hello::kMagic);
    if (bytes % 4 == 1) std::memcpy(message.data() + 8, &Hello::kVersion, sizeof Hello::kVersion);
  }
  const UniqueFd socket = fuzz::socket_with(message.data(), message.size());
  for (int i = 0; i < 16; ++i) {
    const auto state = handshake.step(socket.get());
    if (!state.ok()) {
      FUZZ_REQUIRE(!state.status().text().empty());
      break;
    }
    FUZZ_REQUIRE(*state != Handshake::State::kDone);  // nobody gets through without the secret
  }
  (void)handshake.peer().name();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  shake(Handshake::Role::kAccept, data, bytes);
  shake(Handshake::Role::kConnect, data, bytes);
  const std::string_view text = fuzz::text_of(data, bytes);
  if (const auto address = parse_net_address(text); address.ok()) {
    const auto again = parse_net_address(to_string(*address));
    FUZZ_REQUIRE(again.ok() && *again == *address);
  }
  if (const auto ports = PortRange::parse(text); ports.ok()) FUZZ_REQUIRE(ports->first <= ports->last);
  if (const auto filter = InterfaceFilter::parse(text); filter.ok()) (void)filter->allows("eth0");
  return 0;
}
