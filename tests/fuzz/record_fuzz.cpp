// SPDX-License-Identifier: Apache-2.0
// Call records in memory that peers and `hocket ps` read: whatever stands there, a reader gets a call or nothing.
#include "core/call.hpp"
#include "fuzz/fuzz.hpp"

using namespace hocket;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::Taker taker(data, bytes);
  constexpr std::uint64_t kRecords = 4;
  static CallRecord ring[kRecords];
  for (CallRecord& record : ring) {
    record.number.store(taker.take<std::uint64_t>());
    record.hash.store(taker.take<std::uint64_t>());
    record.count.store(taker.take<std::uint64_t>());
    record.what.store(taker.take<std::uint64_t>());
    record.root_tile.store(taker.take<std::uint64_t>());
  }
  for (const CallRecord& record : ring) {
    const std::uint64_t number = record.number.load() - 1;
    RecordedCall call;
    if (read_record(ring, kRecords, number, &call)) {
      FUZZ_REQUIRE(call.number == number);
      FUZZ_REQUIRE(!to_text(call).empty());
    }
    if (unpack(record.what.load(), record.root_tile.load(), &call)) FUZZ_REQUIRE(!to_text(call).empty());
  }
  return 0;
}
