// SPDX-License-Identifier: Apache-2.0
// The control thread's handshake about shared memory, from both sides: what another process of the host may send.
#include <fcntl.h>

#include "fuzz/fuzz.hpp"
#include "transport/shm.hpp"

using namespace hocket;

namespace {

struct Self {
  ProcessAddress address{};
  std::unique_ptr<Arena> arena;
  std::unique_ptr<ProofWords> proofs;
};

Self& self() {
  static Self& self = *[] {
    auto* made = new Self;
    made->address.token = {1, 2};
    made->address.pid = ::getpid();
    auto arena = Arena::create(made->address.token, std::uint64_t{1} << 30);
    if (!arena.ok()) std::abort();
    made->arena = std::move(*arena);
    made->address.arena_bytes = made->arena->bytes();
    made->proofs = std::make_unique<ProofWords>(made->arena->header());
    return made;
  }();
  return self;
}

void shake(ShmHandshake::Role role, const std::uint8_t* data, std::size_t bytes) {
  const ShmSelf shm{self().address, *self().arena, *self().proofs, false};
  std::vector<std::uint8_t> message(data, data + bytes);
  // A header that is right gets the rest looked at.
  if (bytes % 2 == 1 && message.size() >= 16) {
    std::memcpy(message.data(), &kShmMagic, sizeof kShmMagic);
    std::memcpy(message.data() + 8, &kShmVersion, sizeof kShmVersion);
    message[12] %= 5;
    message[13] = message[14] = message[15] = 0;
  }
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const os::UniqueFd socket = fuzz::socket_with(message.data(), message.size(), type);
    ShmHandshake handshake(shm, role, socket.get(), {3, 4});
    for (int i = 0; i < 16; ++i) {
      const auto step = handshake.advance();
      if (!step.ok()) break;
      if (*step != ShmHandshake::Step::kDone) continue;
      FUZZ_REQUIRE(!handshake.outcome().ok());  // no descriptor came, so nothing was proven
      break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  shake(ShmHandshake::Role::kAcceptor, data, bytes);
  shake(ShmHandshake::Role::kInitiator, data, bytes);
  (void)check_arena_bytes(fuzz::Taker(data, bytes).take<std::uint64_t>());
  (void)process_name(1, fuzz::text_of(data, bytes));
  return 0;
}
