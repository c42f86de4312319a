// SPDX-License-Identifier: Apache-2.0
// select.hpp: which algorithm, protocol, lanes and tile a call uses. Pure: equal inputs give equal choices on all ranks
// and in all runs. The program's own tuner (hocket/tuner.hpp) comes first, then a measured table (tuning.hpp) where it
// has a row, then the model of predict.hpp; the settings' lists rule out. Next stop: algorithms/ring.cpp and its
// sisters build the plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/protocol.hpp"
#include "algorithms/registry.hpp"
#include "algorithms/tuning.hpp"
#include "base/settings.hpp"
#include "hocket/tuner.hpp"

namespace hocket {

struct Layout;  // layout.hpp

/// More lanes than there are mailbox channels have none to go by (exec/block.hpp).
inline constexpr int kMostLanes = 8;

/// What the ranks agreed on when the communicator was made, as far as the choice may read it.
struct World {
  int size = 1;
  int hosts = 1;
  bool direct = true;        ///< every rank loads and stores every other's memory
  bool one_process = false;  ///< all ranks are threads of one process: any memory is each other's
  bool crowded = false;      ///< some host has more ranks than cores that they may use
  std::uint64_t slots = 4;
  std::uint64_t slot_bytes = 65536;
  std::uint64_t cache_bytes = 32u << 20;  ///< last-level cache that a host's ranks share, the smallest
  std::shared_ptr<const Tuning> tuning;   ///< null: default_tuning()
  double hop_seconds = 0;                 ///< one small message between two ranks (topo/cost.hpp, the slowest host's)
  double seconds_per_byte = 0;            ///< of a large one
  /// In which orders plans go through the ranks, and what their links carry; null: by rank, all alike.
  std::shared_ptr<const Layout> layout;
  std::uint64_t layout_digest = 0;     ///< of it; part of what ranks compare in every call
  std::shared_ptr<const Tuner> tuner;  ///< or null
  // Settings that rule out or force; equal on all ranks.
  AllowList algorithms;
  AllowList protocols;
  std::uint64_t tile_bytes = 0;
  int lanes = 0;
  bool reproducible = false;  ///< reductions keep rank order: only algorithms that are `ordered`
};

/// What a call's operator asks of the algorithm.
struct OperatorNeeds {
  bool own_input = false;        ///< nobody else may read a rank's input: it is scaled as it is read
  bool rank_order = false;       ///< not commutative: elements are combined in the order of the ranks
  ReduceOp op = ReduceOp::kSum;  ///< itself, for a tuner
};

/// Needs of `op`; `ordered`: it is a user's and not commutative.
constexpr OperatorNeeds needs_of(ReduceOp op, bool ordered) {
  return {op == ReduceOp::kPremultipliedSum, ordered, op};
}

struct Choice {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::kBulk;
  int lanes = 1;
  std::uint64_t tile_bytes = 0;  ///< of one piece of a slot
  int tiles_per_round = 1;
  bool measured = false;       ///< by a row of the tuning table
  bool by_tuner = false;       ///< the program's own tuner chose
  bool stream_output = false;  ///< the output will not be found in the cache anyway
};

/// What was not taken, in the order of preference, and why.
struct Rejected {
  std::string_view algorithm;
  std::string reason;
};

/// `bytes` is what the collective's count makes: the whole buffer for all-reduce, broadcast, reduce, send and receive;
/// one rank's chunk for the others. The uneven forms and groups of sends and receives look at the world and the type
/// alone, since no rank knows all counts. `symmetric`: the call's buffers lie in mem_alloc memory. Errors: kUnsupported
/// naming the setting that leaves nothing; kInvalidArgument naming the tuner whose choice cannot be used. `root` is for
/// the tuner; -1: the collective has none, or it is not known.
Result<Choice> choose(Collective collective, std::uint64_t bytes, DataType type, bool symmetric, const World& world,
                      std::vector<Rejected>* rejected = nullptr, const OperatorNeeds& needs = {}, Rank root = -1);

/// One way to do a call, or why it cannot be done so.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::kBulk;
  int lanes = 1;
  std::uint64_t tile_bytes = 0;
  double seconds = 0;  ///< predicted
  bool measured = false;
  std::string why_not;  ///< not empty: of the fields above only `algorithm` counts
};

/// Everything that choose() looks at, in its order: the first that has no reason against it is its choice without a
/// tuner. Of an algorithm, the protocol and lanes that it would have come first.
std::vector<Candidate> candidates(Collective collective, std::uint64_t bytes, bool symmetric, const World& world,
                                  const OperatorNeeds& needs = {});

/// How often an element is rounded, on the way that the layout's trees give it.
int roundings_of(const Algorithm& algorithm, const World& world);

/// Makes a list of algorithms fit what there is: an entry for all collectives says nothing of one that has none of its
/// names ("ring" of the barrier). Errors: kInvalidArgument for an entry of one collective's own that leaves it nothing.
Status fit_algorithms(AllowList* list);

/// Names that HOCKET_ALGO and HOCKET_PROTO may have.
std::vector<std::string_view> algorithm_names();
std::vector<std::string_view> protocol_names();

}  // namespace hocket
