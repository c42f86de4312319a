// SPDX-License-Identifier: Apache-2.0
// The frames between a rank and `hocket run`, from both sides.
#include <algorithm>

#include "core/launch.hpp"
#include "fuzz/fuzz.hpp"

using namespace hocket;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::Taker in(data, bytes);
  const Rank rank = in.take<std::uint8_t>();
  std::vector<std::byte> message = fuzz::copy_of(in.data(), in.left());
  // A frame whose first words are right gets the rest looked at.
  if (bytes % 2 == 1 && message.size() >= 8) {
    const LaunchHeader good;
    std::memcpy(message.data(), &good, 8);
  }
  // As it comes, piece by piece: what is decided stays so.
  std::size_t decided = 0;
  for (std::size_t have = 0; have <= message.size(); have += std::max<std::size_t>(1, message.size() / 7)) {
    const auto whole = launch_request_bytes(std::span(message).first(have), rank);
    if (!whole.ok()) {
      FUZZ_REQUIRE(whole.status().code() == Code::kInvalidArgument && !whole.status().text().empty());
      break;
    }
    FUZZ_REQUIRE(*whole == 0 || *whole >= have);
    FUZZ_REQUIRE(*whole <= sizeof(LaunchHeader) + LaunchHeader::kMaxBytes);
    FUZZ_REQUIRE(decided == 0 || *whole == decided);
    decided = *whole;
  }

  LaunchHeader answer, request;
  if (!message.empty())
    std::memcpy(static_cast<void*>(&answer), message.data(), std::min(message.size(), sizeof answer));
  request.rank = static_cast<std::uint32_t>(rank);
  request.sequence = answer.sequence % 4;
  const std::size_t all = static_cast<std::size_t>(rank) * 16;
  if (const auto follow = launch_answer_bytes(answer, request, all); follow.ok()) {
    // What a rank makes room for.
    FUZZ_REQUIRE(answer.code == 0 ? *follow == all : *follow <= LaunchHeader::kMaxTextBytes);
    FUZZ_REQUIRE(*follow == answer.bytes);
  }
  return 0;
}
