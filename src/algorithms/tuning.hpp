// SPDX-License-Identifier: Apache-2.0
// tuning.hpp: which algorithm, protocol and tile were measured to be fastest, as a table of text: `hocket tune` writes
// one for a machine, HOCKET_TUNING=FILE loads it, and one is built in (default_tuning.inc). Pure.
//
//     hocket-tuning 1
//     # collective  where    ranks  bytes  algorithm  protocol    tile
//     all_reduce    direct   2      1024   one_shot   first_line  auto
//     all_reduce    direct   2      any    one_shot   bulk        65536
//
// A row holds for worlds of up to `ranks` ranks and calls of up to `bytes` (as choose() counts them: the buffer of
// all_reduce, broadcast and reduce, one rank's chunk of the others); "any" has no limit. Of a collective and a place,
// rows come in rising order of ranks, then bytes, and the first that holds is taken. `where` is what the ranks can do:
//
//     direct     they are on one host, and load and store each other's memory
//     crowded    the same, and there are more of them than cores
//     symmetric  as direct or crowded, and the call's buffers are mem_alloc memory, or any where all ranks are threads
//     of
//                one process
//     puts       some reach others by puts only, such as over a network
//
// "auto" leaves protocol or tile to choose()'s own rules. Blank lines and what follows a # are comments.
// Next stop: select.cpp, which asks it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/protocol.hpp"
#include "algorithms/registry.hpp"

namespace hocket {

enum class Where : std::uint8_t { kDirect, kCrowded, kSymmetric, kPuts };
inline constexpr int kWhereCount = 4;
std::string_view to_string(Where where) noexcept;

struct TuningRow {
  static constexpr std::uint64_t kAny = ~std::uint64_t{0};

  Collective collective = Collective::kAllReduce;
  Where where = Where::kDirect;
  std::uint64_t max_ranks = kAny;
  std::uint64_t max_bytes = kAny;
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::kBulk;
  bool any_protocol = true;      ///< `protocol` says nothing
  std::uint64_t tile_bytes = 0;  ///< 0: auto

  bool operator==(const TuningRow&) const = default;
};

/// A table. A value.
class Tuning {
 public:
  static constexpr int kVersion = 1;
  /// More than any measured table has.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 20;

  /// An empty table: everything by choose()'s rules.
  Tuning() = default;
  /// `name` is for errors, such as the file's. Errors: kInvalidArgument with name, line and what is wrong there.
  static Result<Tuning> parse(std::string_view text, std::string_view name);
  /// Rows in their order, without comments; `comments` are lines to put at the head. What parse() reads.
  std::string to_text(const std::vector<std::string>& comments = {}) const;
  /// Adds a row at its place. Errors: kInvalidArgument for one that cannot run, or that is there already.
  Status add(const TuningRow& row);

  /// Null if no row holds.
  const TuningRow* find(Collective collective, Where where, int ranks, std::uint64_t bytes) const noexcept;

  const std::vector<TuningRow>& rows() const noexcept { return rows_; }
  /// Equal for equal rows, whatever the comments; 0 for none.
  std::uint64_t digest() const noexcept { return digest_; }
  /// "default", or the file it came from.
  const std::string& name() const noexcept { return name_; }

 private:
  void update_digest();

  std::string name_;
  std::vector<TuningRow> rows_;  // by collective, where, ranks, bytes
  std::uint64_t digest_ = 0;
};

/// What is built in: measured by the command in the head of default_tuning.inc.
const Tuning& default_tuning();

}  // namespace hocket
