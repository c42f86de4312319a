// SPDX-License-Identifier: Apache-2.0
// sim/fold.hpp: a world of plans on a Fabric, folded to one member of each class of ranks that behave alike.
//
// An actor is one rank's part in one copy of a plan, or in one component of it: lanes that never talk to the others
// (the halves of a double tree) are actors of their own. Copies carry equal parts of the buffer side by side, each with
// its own order of ranks (a ring over other links, another rail); label r of a copy is run by rank place[r].
//
// Folding is colour refinement: actors start with the colour of their plan's structure, links with that of their kind
// and rate; then a link's colour takes in who sends over it, and an actor's the links it uses and whom it talks to,
// until no class splits any more. Then one actor of each class is kept, and of each class of links one link with the
// weight of each class of transfers on it: equal actors do equal things at equal times, so the result is exact. Where
// something breaks the symmetry (a slow link), classes are found without it first; then those of different distance
// from it are told apart, hop by hop, up to `depth` hops and `most_near` more classes. Actors beyond are told apart by
// their distance alone, so that each still sees somebody who is nearer to what holds all of them up. Unfolded, every
// actor is its own class.
//
// Where that leaves too many classes (two trees over the same hosts have no symmetry in common), links are told apart
// by what structures of plans use them only, and what a class of links carries is averaged over them: right in the
// steady state, near it in a pipeline's first tiles. Around a trouble, links of actors that are a class each are not
// averaged.
//
// Memory: some 20 bytes for each end of a channel, and no plan but those kept. Source: Weisfeiler and Leman 1968;
// Berkholz, Bonsma and Grohe, Tight lower and upper bounds for the complexity of canonical colour refinement, 2013.
// Next stop: sim/replay.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/plan.hpp"
#include "sim/fabric.hpp"
#include "sim/flows.hpp"

namespace hocket::sim {

/// All ranks' plans of one collective, made when asked for.
struct PlanFamily {
  int size = 1;
  std::function<Plan(int)> plan;
};

/// [copy][label]: rank
using Placement = std::vector<std::vector<int>>;

enum class StreamKind : std::uint8_t {
  kPush,    ///< to a peer's slot or buffer
  kPull,    ///< from a peer's board or buffer
  kEngine,  ///< a rank's own copying
};

/// A way on which an actor moves bytes.
struct Stream {
  std::int32_t peer = 0;  ///< label
  StreamKind kind = StreamKind::kPush;
  std::uint32_t first_link = 0;  ///< into FoldedWorld::loads
  std::uint32_t link_count = 0;
  Wire wire = Wire::kCore;  ///< of the narrowest link
  int from = 0, to = 0;     ///< ranks
};

/// This actor's end of a channel.
struct End {
  std::uint16_t channel = 0;
  bool outgoing = false;
  std::int32_t peer = 0;      ///< label
  std::int32_t opposite = 0;  ///< into FoldedWorld::ends: the end whose signals this one sees
  Route route;                ///< of what this end signals
};

struct Actor {
  Plan plan;
  int rank = 0;
  int layer = 0;  ///< copy and component
  int label = 0;
  std::int64_t members = 1;
  std::uint32_t first_end = 0, end_count = 0;
  std::uint32_t first_stream = 0, stream_count = 0;
};

/// Links that carry the same, and whose: so many times the bytes of these streams of kept actors. Exact, even where
/// what is replayed is averaged.
struct LinkLoad {
  int id = 0;                                                   ///< one of them, of the Fabric
  std::vector<std::pair<std::uint32_t, std::int32_t>> streams;  ///< into FoldedWorld::streams; how many
};

struct FoldedLink {
  int id = 0;  ///< of the Fabric
  std::int64_t members = 1;
};

struct FoldedWorld {
  const Fabric* fabric = nullptr;
  std::vector<Actor> actors;
  std::vector<End> ends;
  std::vector<Stream> streams;
  std::vector<WeightedLink> loads;  ///< links are indices into `links`
  std::vector<FoldedLink> links;
  std::vector<LinkLoad> carried;
  std::int64_t all_actors = 0;
  int copies = 1;
  bool exact = true;  ///< refinement ended by itself
};

struct FoldOptions {
  bool fold = true;
  int depth = 0;         ///< 0: twice the logarithm of the ranks, and at least 40
  bool average = false;  ///< links are averaged, even if few classes do without
  /// More classes around slow links and ranks; 0: all in small worlds, else 256.
  std::size_t most_near = 0;
};

/// kUnsupported for worlds with more ends than memory is worth; kInternal if plans do not fit each other.
Result<FoldedWorld> fold(const Fabric& fabric, const PlanFamily& family, const Placement& placement,
                         const FoldOptions& options);

}  // namespace hocket::sim
