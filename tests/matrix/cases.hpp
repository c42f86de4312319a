// SPDX-License-Identifier: Apache-2.0
// matrix/cases.hpp: what is tried on a communicator: one call with its buffers, and how its result is checked.
//
// A rank's buffers begin at any byte, with guard bytes around them. After the call every byte of both, guards and gaps
// included, must be what it should be: results exact, inputs and what is no result untouched.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/hocket.hpp"
#include "matrix/values.hpp"

namespace hocket::matrix {

enum class Kind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
  kBarrier,
  kSendReceive,
  kGroup,  ///< messages between all pairs, an all_reduce and a broadcast, as one group
};
inline constexpr int kKinds = 14;

std::string_view name_of(Kind kind);
std::string_view name_of(Op op);

/// One call of every rank.
struct Case {
  Kind kind = Kind::kAllReduce;
  Contents contents;
  std::size_t count = 0;                            ///< of the uneven forms: parts have 0 to 2 * count elements
  std::size_t input_offset = 0, output_offset = 0;  ///< bytes past an aligned address
  bool in_place = false;
  bool gaps = false;  ///< of the uneven forms: parts do not lie side by side
  Rank root = 0;
};
std::string to_string(const Case& c);

/// All cases for a world of `ranks`: first one type by every count to 1025 and some large ones, then all types by all
/// operations. `seed` is that of their contents.
std::vector<Case> all_cases(int ranks, std::uint64_t seed);

/// What ranks that are threads share to see whether a barrier holds.
struct Arrivals {
  std::atomic<std::uint64_t> total{0};
};

/// Runs cases on one rank. Keeps its buffers from call to call.
class CaseRunner {
 public:
  CaseRunner(Communicator& comm, Arrivals& arrivals) : comm_(comm), arrivals_(arrivals) {}
  /// An error of the call as it is; a wrong byte is kInternal with where it is, and what it is.
  Status run(const Case& c);

 private:
  struct Part {
    std::size_t output;  // elements
    std::size_t count;
    Rank from;  // kReduced: all
    std::size_t input;
  };
  static constexpr Rank kReduced = -1;
  // One buffer with its guards, and what must be in it at the end.
  struct Buffer {
    std::vector<std::byte> bytes, image;
    std::byte* data = nullptr;
    std::size_t at = 0;  // of data in bytes
    void lay(std::size_t length, std::size_t offset);
    void write(std::size_t at_byte, std::uint64_t bits, std::size_t size);
  };

  Status run_even(const Case& c);
  Status run_uneven(const Case& c);
  Status run_send_receive(const Case& c);
  Status run_group(const Case& c);
  Status run_barrier();
  Reduction reduction_of(const Case& c);
  void fill(const Case& c, Buffer& buffer, std::size_t element_at, Rank rank, std::size_t index, std::size_t count);
  void expect(const Case& c, Buffer& buffer, const std::vector<Part>& parts, std::size_t from_element = 0);
  Status check(const Case& c, const Buffer& buffer, std::string_view name) const;

  Communicator& comm_;
  Arrivals& arrivals_;
  std::uint64_t barriers_ = 0;
  Buffer input_, output_;
  std::uint64_t scalar_ = 0;  // where a premultiplied sum reads it
};

}  // namespace hocket::matrix
