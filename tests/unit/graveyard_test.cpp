// SPDX-License-Identifier: Apache-2.0
// graveyard_test.cpp: memory of ended communicators comes back when their peers are done, and the looks at it get rarer
// only by time.
#include "core/graveyard.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

namespace hocket {
namespace {

struct Yard {
  std::unique_ptr<Arena> arena = std::move(Arena::create({1, 2}, std::uint64_t{64} << 20)).value();
  Graveyard graveyard;

  // A block of a communicator of two ranks, of which rank 1 is not done.
  std::uint64_t bury() {
    Graveyard::Grave grave;
    grave.block_offset = arena->reserve(grave.layout.bytes, 4096).value();
    EXPECT_TRUE(arena->commit(grave.block_offset, grave.layout.bytes).ok());
    grave.tokens = {{1, 2}, {3, 4}};
    grave.gone = {true, false};
    const std::uint64_t offset = grave.block_offset;
    graveyard.bury(std::move(grave));
    return offset;
  }
};

TEST(Graveyard, AWakeForAnotherReasonPutsNoLookOff) {
  Yard yard;
  yard.bury();
  const os::Deadline first = yard.graveyard.sweep(*yard.arena);
  ASSERT_FALSE(first.is_never());
  for (int wake = 0; wake < 100; ++wake) {
    const bool due = first.passed();
    const os::Deadline next = yard.graveyard.sweep(*yard.arena);
    if (due || first.passed()) break;  // a slow machine: that look was in time
    EXPECT_EQ(next, first);
  }
}

TEST(Graveyard, ABlockComesBackWhenItsPeerIsDone) {
  Yard yard;
  const std::uint64_t block = yard.bury();
  yard.graveyard.sweep(*yard.arena);
  EXPECT_EQ(yard.graveyard.size(), 1u);
  const BlockLayout layout = Graveyard::Grave().layout;
  reinterpret_cast<std::atomic<std::uint64_t>*>(yard.arena->base() + block + layout.closed(1))->store(1);
  EXPECT_TRUE(yard.graveyard.sweep(*yard.arena).is_never());
  EXPECT_EQ(yard.graveyard.size(), 0u);
  EXPECT_EQ(yard.arena->usage().reserved, 0u);
}

TEST(Graveyard, ABlockComesBackWhenItsPeerHasDiedBeforeTheBurial) {
  Yard yard;
  yard.graveyard.on_loss({3, 4});
  yard.bury();
  EXPECT_TRUE(yard.graveyard.sweep(*yard.arena).is_never());
  EXPECT_EQ(yard.arena->usage().reserved, 0u);
}

}  // namespace
}  // namespace hocket
