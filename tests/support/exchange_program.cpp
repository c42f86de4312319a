// SPDX-License-Identifier: Apache-2.0
// exchange_program.cpp: a rank that only meets the others and exchanges, for tests of start-up between hosts: no data
// path is needed.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "core/launch.hpp"

int main() {
  const auto fail = [](const hocket::Status& status) {
    std::fprintf(stderr, "exchange_program: %s\n", status.to_string().c_str());
    return 1;
  };
  auto settings = hocket::Settings::from_environment();
  if (!settings.ok()) return fail(settings.status());
  auto launched = hocket::launched_from_environment(*settings);
  if (!launched.ok()) return fail(launched.status());
  if (!*launched) return fail({hocket::Code::kInvalidArgument, "nobody started me"});
  const hocket::LaunchedRank& me = **launched;
  for (std::size_t count : {1u, 100u, 0u}) {
    std::vector<std::uint64_t> mine(count, static_cast<std::uint64_t>(me.rank) + count);
    std::vector<std::uint64_t> all(count * static_cast<std::size_t>(me.size));
    const hocket::Status status = me.exchange(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
    if (!status.ok()) return fail(status);
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] != i / count + count) return 2;
  }
  std::printf("rank %d of %d exchanged\n", me.rank, me.size);
  return 0;
}
