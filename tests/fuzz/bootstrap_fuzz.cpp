// SPDX-License-Identifier: Apache-2.0
// What arrives at start-up once a peer has proven itself, which may still be of another build: frames, cards of
// leaders, errors; and unique ids, which people copy about.
#include "core/bootstrap/frames.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/bootstrap/root_address.hpp"
#include "fuzz/fuzz.hpp"

using namespace hocket;

namespace {

void frames(const std::uint8_t* data, std::size_t bytes) {
  os::Hello peer;
  FrameStream stream(fuzz::socket_with(data, bytes), peer);
  std::size_t taken = 0;
  for (int i = 0; i < 64 && stream.closed().ok(); ++i) {
    stream.turn();
    while (const auto frame = stream.take()) {
      taken += sizeof(FrameHeader) + frame->bytes.size();
      FUZZ_REQUIRE(frame->bytes.size() == frame->header.bytes);
      (void)frame->text();
      FUZZ_REQUIRE(!status_of(*frame).ok());
    }
  }
  FUZZ_REQUIRE(taken <= bytes);  // nothing is made up
  if (stream.peer_error()) FUZZ_REQUIRE(!status_of(*stream.peer_error()).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  frames(data, bytes);

  const std::vector<std::byte> copy = fuzz::copy_of(data, bytes);
  Reader reader{std::span(copy)};
  LeaderCard card;
  if (reader.read(card) && card.valid()) {
    FUZZ_REQUIRE(card.net_addresses().size() == card.address_count);
    (void)card.name();
  }

  if (const auto id = UniqueId::from_string(fuzz::text_of(data, bytes)); id.ok()) {
    const auto again = UniqueId::from_string(id->to_string());
    FUZZ_REQUIRE(again.ok() && *again == *id);
  }
  UniqueId id;
  std::memcpy(id.bytes.data(), data, bytes < id.bytes.size() ? bytes : id.bytes.size());
  if (const auto root = RootAddress::of(id); root.ok()) (void)root->net_addresses();
  return 0;
}
