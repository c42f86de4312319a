// SPDX-License-Identifier: Apache-2.0
// Tuning tables: what HOCKET_TUNING names may hold anything.
#include "algorithms/select.hpp"
#include "algorithms/tuning.hpp"
#include "fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  using namespace hocket;
  const auto table = Tuning::parse(fuzz::text_of(data, bytes), "fuzz");
  if (!table.ok()) {
    FUZZ_REQUIRE(table.status().code() == Code::kInvalidArgument);
    FUZZ_REQUIRE(table.status().text().size() < 2000);  // not a page of what was wrong
    return 0;
  }
  const auto again = Tuning::parse(table->to_text({"a comment"}), "again");
  FUZZ_REQUIRE(again.ok());
  FUZZ_REQUIRE(again->rows() == table->rows());
  FUZZ_REQUIRE(again->digest() == table->digest());
  // Whatever the rows say, what is chosen can run.
  World world;
  world.tuning = std::make_shared<const Tuning>(*table);
  for (const TuningRow& row : table->rows()) {
    world.size = static_cast<int>(row.max_ranks < 300 ? row.max_ranks : 300);
    world.direct = row.where != Where::kPuts;
    world.crowded = row.where == Where::kCrowded;
    const bool symmetric = row.where == Where::kSymmetric;
    const auto choice =
        choose(row.collective, row.max_bytes < 1000 ? row.max_bytes : 1000, DataType::kFloat32, symmetric, world);
    if (!choice.ok()) continue;  // a slot too small for so many tiles
    FUZZ_REQUIRE(choice->tile_bytes >= 16 && choice->tile_bytes % 16 == 0);
    FUZZ_REQUIRE(choice->tile_bytes <= world.slot_bytes);
    FUZZ_REQUIRE(world.direct || (!choice->algorithm->boards && !choice->algorithm->zero_copy));
    FUZZ_REQUIRE(symmetric || !choice->algorithm->zero_copy);
  }
  return 0;
}
