// SPDX-License-Identifier: Apache-2.0
// What a peer sends on the streams of a tcp connection once it has proven itself, which may still be of another build,
// or bent on harm: frames of all kinds, in pieces, over several streams; and the hello that says which stream is which.
#include <algorithm>
#include <array>

#include "fuzz/fuzz.hpp"
#include "transport/arena.hpp"
#include "transport/landing.hpp"
#include "transport/tcp_endpoint.hpp"
#include "transport/tcp_io.hpp"

using namespace hocket;

namespace {

constexpr std::uint64_t kArena = std::uint64_t{1} << 20;
constexpr std::uint64_t kPlaceBytes = 16384;

struct Memory {
  std::unique_ptr<Arena> arena = Arena::create({1, 2}, kArena).value();
  std::uint64_t place = arena->reserve(kPlaceBytes, 4096).value();  ///< all that a peer may write to
  std::uint64_t guard = arena->reserve(4096, 4096).value();         ///< given up: nobody may
  Memory() {
    (void)arena->commit(place, kPlaceBytes);
    (void)arena->commit(guard, 4096);
    arena->abandon(guard);
  }
};

/// `bytes` on one to three streams: the first says how many, then pieces: a byte for the stream, one for the length.
void connection(Memory& memory, const std::uint8_t* data, std::size_t bytes) {
  fuzz::Taker in(data, bytes);
  const std::size_t count = 1 + in.take<std::uint8_t>() % 3;
  std::vector<std::vector<std::uint8_t>> sent(count);
  while (in.left() > 0) {
    const std::size_t stream = in.take<std::uint8_t>() % count;
    std::size_t length = 1 + in.take<std::uint8_t>();
    for (; length > 0 && in.left() > 0; --length) sent[stream].push_back(in.take<std::uint8_t>());
  }
  std::vector<tcp::Stream> streams;
  for (const auto& one : sent)
    streams.emplace_back(os::NetConnection{.fd = fuzz::socket_with(one.data(), one.size()), .local = {}, .peer = {}});
  // Its thread is not started: this one drives.
  const auto io = tcp::IoThread::create(std::chrono::seconds(1)).value();
  tcp::TcpEndpoint endpoint(*memory.arena, {{3, 4}, kArena, "a peer"}, std::move(streams), io);
  Status status;
  for (int i = 0; i < 8 && status.ok(); ++i) status = endpoint.progress();
  FUZZ_REQUIRE(status.ok() || !status.text().empty());
  FUZZ_REQUIRE(status.code() != Code::kInternal);
  endpoint.cancel(nullptr);
  endpoint.fail(Status(Code::kPeerLost, "the end"));
  io->stop();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static Memory& memory = *new Memory;
  std::array<std::byte, sizeof(ArenaHeader)> before;
  std::memcpy(before.data(), static_cast<const void*>(&memory.arena->header()), sizeof before);
  connection(memory, data, bytes);
  // Nothing but what was reserved has changed.
  FUZZ_REQUIRE(std::memcmp(before.data(), static_cast<const void*>(&memory.arena->header()), sizeof before) == 0);
  const std::byte* guard = memory.arena->base() + memory.guard;
  FUZZ_REQUIRE(std::all_of(guard, guard + 4096, [](std::byte b) { return b == std::byte{}; }));

  tcp::StreamHello hello;
  std::memcpy(static_cast<void*>(&hello), data, std::min(bytes, sizeof hello));
  const ProcessToken self{1, 2};
  if (bytes % 2 == 1) hello.magic = tcp::StreamHello::kMagic, hello.to = self;
  if (tcp::check_hello(hello, self).ok()) {
    FUZZ_REQUIRE(hello.stream < hello.streams && hello.streams <= tcp::kMostStreams);
    FUZZ_REQUIRE(hello.arena_bytes >= sizeof(ArenaHeader));
  }
  return 0;
}
