// SPDX-License-Identifier: Apache-2.0
// arena_test.cpp: addresses are dealt and come back, memory is there when committed, limits are named.
#include "transport/arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "base/os/memfd.hpp"

namespace hocket {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::unique_ptr<Arena> new_arena(std::uint64_t bytes = kArenaBytes) {
  auto arena = Arena::create({1, 2}, bytes);
  EXPECT_TRUE(arena.ok()) << arena.status().to_string();
  return std::move(arena).value();
}

TEST(Arena, IsLargeAndSealedAndCostsNothingAtFirst) {
  const auto arena = new_arena();
  EXPECT_EQ(arena->bytes(), kArenaBytes);
  EXPECT_EQ(os::check_memfd(arena->fd(), kArenaBytes).value(), kArenaBytes);
  EXPECT_EQ(arena->header().magic, kArenaMagic);
  EXPECT_EQ(arena->header().token_high, 1u);
  EXPECT_EQ(arena->header().token_low, 2u);
  const Arena::Usage usage = arena->usage();
  EXPECT_EQ(usage.reserved, 0u);
  EXPECT_EQ(usage.committed, 0u);
}

TEST(Arena, RangesAreAlignedDisjointAndBehindTheHeader) {
  const auto arena = new_arena(64 * kMiB);
  std::uint64_t last_end = sizeof(ArenaHeader);
  for (const std::uint64_t align : {std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{65536}, 2 * kMiB}) {
    const std::uint64_t offset = arena->reserve(5000, align).value();
    EXPECT_EQ(offset % std::max<std::uint64_t>(align, os::page_bytes()), 0u);
    EXPECT_GE(offset, last_end);
    last_end = offset + 5000;
  }
  EXPECT_EQ(arena->usage().ranges, 4u);
}

TEST(Arena, CommittedMemoryIsZeroWritableAndFoundByItsAddress) {
  const auto arena = new_arena();
  const std::uint64_t offset = arena->reserve(8 * kMiB, 64).value();
  std::byte* const data = arena->base() + offset;
  std::uint64_t found = 0;
  EXPECT_FALSE(arena->contains(data, 1, &found)) << "reserved is not yet committed";
  ASSERT_TRUE(arena->commit(offset + kMiB, kMiB).ok());
  ASSERT_TRUE(arena->commit(offset + 2 * kMiB, kMiB).ok());
  EXPECT_EQ(arena->usage().committed, 2 * kMiB);
  EXPECT_TRUE(arena->contains(data + kMiB, 2 * kMiB, &found)) << "neighbours are one piece";
  EXPECT_EQ(found, offset + kMiB);
  EXPECT_FALSE(arena->contains(data + kMiB, 2 * kMiB + 1, &found));
  EXPECT_FALSE(arena->contains(data + kMiB - 1, 1, &found));
  EXPECT_FALSE(arena->contains(&found, 1, &found));
  for (std::uint64_t i = kMiB; i < 3 * kMiB; ++i) ASSERT_EQ(data[i], std::byte{0});
  std::memset(data + kMiB, 7, 2 * kMiB);
  ASSERT_TRUE(arena->commit(offset, 8 * kMiB).ok()) << "a larger commit takes the smaller ones in";
  EXPECT_EQ(arena->usage().committed, 8 * kMiB);
  EXPECT_EQ(data[2 * kMiB], std::byte{7});
  ASSERT_TRUE(arena->commit(offset + 3, 5).ok());
  EXPECT_EQ(arena->usage().committed, 8 * kMiB);
}

TEST(Arena, ReleasedMemoryIsReusedAndReadsAsZero) {
  const auto arena = new_arena();
  const std::uint64_t offset = arena->reserve(kMiB, 64).value();
  const std::uint64_t other = arena->reserve(kMiB, 64).value();
  ASSERT_TRUE(arena->commit(offset, kMiB).ok());
  std::memset(arena->base() + offset, 1, kMiB);
  arena->release(offset);
  EXPECT_EQ(arena->usage().committed, 0u);
  EXPECT_EQ(arena->reserve(kMiB, 64).value(), offset) << "first fit";
  ASSERT_TRUE(arena->commit(offset, kMiB).ok());
  for (std::uint64_t i = 0; i < kMiB; ++i) ASSERT_EQ(arena->base()[offset + i], std::byte{0});
  arena->release(offset);
  arena->release(other);
  EXPECT_EQ(arena->usage().ranges, 0u);
}

TEST(Arena, AbandonedAddressesNeverComeBackButTheirMemoryDoes) {
  const auto arena = new_arena();
  const std::uint64_t offset = arena->reserve(kMiB, 64).value();
  ASSERT_TRUE(arena->commit(offset, kMiB).ok());
  arena->abandon(offset);
  EXPECT_EQ(arena->usage().committed, 0u);
  EXPECT_EQ(arena->usage().reserved, kMiB);
  EXPECT_NE(arena->reserve(kMiB, 64).value(), offset);
  EXPECT_FALSE(arena->commit(offset, kMiB).ok());
  arena->release(offset);
  EXPECT_EQ(arena->usage().reserved, 2 * kMiB);
  arena->base()[offset] = std::byte{1};  // a late write of an excluded peer hits nobody
}

TEST(Arena, WrongRangesAreErrors) {
  const auto arena = new_arena(16 * kMiB);
  EXPECT_EQ(arena->reserve(0, 64).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(arena->reserve(1, 48).status().code(), Code::kInvalidArgument);
  const Status full = arena->reserve(16 * kMiB, 64).status();
  EXPECT_EQ(full.code(), Code::kOutOfMemory);
  EXPECT_NE(full.text().find("are free"), std::string_view::npos) << full.to_string();
  EXPECT_EQ(arena->reserve(~std::uint64_t{0}, 64).status().code(), Code::kOutOfMemory);
  EXPECT_EQ(arena->reserve(1, std::uint64_t{1} << 63).status().code(), Code::kOutOfMemory);
  const std::uint64_t offset = arena->reserve(kMiB, 64).value();
  EXPECT_FALSE(arena->commit(offset, kMiB + 1).ok());
  EXPECT_FALSE(arena->commit(offset + kMiB, 1).ok());
  EXPECT_FALSE(arena->commit(offset + 1, ~std::uint64_t{0}).ok());
  EXPECT_FALSE(arena->commit(0, 1).ok()) << "the header is nobody's";
}

TEST(Arena, RandomReservesNeverOverlap) {
  const auto arena = new_arena(256 * kMiB);
  std::mt19937_64 random(7);
  std::map<std::uint64_t, std::uint64_t> live;
  for (int i = 0; i < 3000; ++i) {
    if (!live.empty() && random() % 3 == 0) {
      const auto victim = std::next(live.begin(), static_cast<long>(random() % live.size()));
      arena->release(victim->first);
      live.erase(victim);
      continue;
    }
    const std::uint64_t bytes = 1 + random() % (kMiB / 2);
    const auto offset = arena->reserve(bytes, std::uint64_t{1} << random() % 18);
    if (!offset.ok()) continue;
    const auto next = live.lower_bound(*offset);
    if (next != live.end()) {
      ASSERT_LE(*offset + bytes, next->first);
    }
    if (next != live.begin()) {
      ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *offset);
    }
    ASSERT_LE(*offset + bytes, arena->bytes());
    live.emplace(*offset, bytes);
  }
  EXPECT_EQ(arena->usage().ranges, live.size());
}

// Runs `body` in a child, as limits cannot be raised again.
template <class Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadows exceed any limit of addresses
TEST(Arena, ALimitOfAddressSpaceMakesItSmaller) {
  EXPECT_EQ(in_child([] {
              const rlimit limit{std::uint64_t{20} << 30, std::uint64_t{20} << 30};
              if (::setrlimit(RLIMIT_AS, &limit) != 0) return 1;
              const auto arena = Arena::create({1, 2});
              return arena.ok() && (*arena)->bytes() == std::uint64_t{16} << 30 ? 0 : 2;
            }),
            0);
}

TEST(Arena, TooLittleAddressSpaceIsAnErrorThatNamesTheLimit) {
  EXPECT_EQ(in_child([] {
              const rlimit limit{std::uint64_t{512} << 20, std::uint64_t{512} << 20};
              if (::setrlimit(RLIMIT_AS, &limit) != 0) return 1;
              const Status status = Arena::create({1, 2}).status();
              if (status.code() != Code::kOutOfMemory) return 2;
              return status.text().find("ulimit -v") != std::string_view::npos ? 0 : 3;
            }),
            0);
}
#endif

TEST(Arena, ALimitOfFileLengthIsRespectedAndKillsNobody) {
  EXPECT_EQ(in_child([] {
              const rlimit limit{std::uint64_t{3} << 30, std::uint64_t{3} << 30};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              const auto arena = Arena::create({1, 2});
              return arena.ok() && (*arena)->bytes() == std::uint64_t{2} << 30 ? 0 : 2;
            }),
            0);
}

TEST(Arena, AForkedChildThatDestroysItUnmapsNothingOfItsOwn) {
  auto arena = new_arena();
  std::byte* const base = arena->base();
  EXPECT_EQ(in_child([&] {
              void* own =
                  ::mmap(base, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
              if (own != base) return 1;  // the addresses are free in the child
              *base = std::byte{5};
              arena.reset();
              return *base == std::byte{5} ? 0 : 2;
            }),
            0);
  EXPECT_EQ(arena->header().magic, kArenaMagic) << "the parent goes on";
}

}  // namespace
}  // namespace hocket
