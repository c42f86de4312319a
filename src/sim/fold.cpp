// SPDX-License-Identifier: Apache-2.0
#include "sim/fold.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "base/status.hpp"
#include "sim/outline.hpp"

namespace hocket::sim {
namespace {

constexpr std::size_t kMostEnds = std::size_t{40} << 20;
constexpr std::size_t kMostActors = std::size_t{4} << 20;

std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

/// All labels' outlines, and which end sees which.
struct Outlines {
  std::vector<std::uint64_t> structure;  // [label]
  std::vector<std::uint32_t> end_first;  // [label + 1]
  std::vector<OutlineEnd> ends;
  std::vector<std::int32_t> opposite;       // [ends]: place in the peer's list
  std::vector<std::uint32_t> stream_first;  // [label + 1]
  std::vector<OutlineStream> streams;

  static Result<Outlines> of(const PlanFamily& family, bool engine) {
    Outlines all;
    all.end_first.push_back(0);
    all.stream_first.push_back(0);
    for (int label = 0; label < family.size; ++label) {
      const Outline outline = outline_of(family.plan(label));
      all.structure.push_back(outline.structure);
      all.ends.insert(all.ends.end(), outline.ends.begin(), outline.ends.end());
      if (engine) all.streams.push_back({label, StreamKind::kEngine, 0});
      all.streams.insert(all.streams.end(), outline.streams.begin(), outline.streams.end());
      if (all.ends.size() > kMostEnds || all.streams.size() > kMostEnds)
        return error(Code::kUnsupported,
                     "{} ranks each of which talks to hundreds of others: too many pairs to simulate; try a ring, a "
                     "tree, halving_doubling, log_step or hierarchical",
                     family.size);
      all.end_first.push_back(static_cast<std::uint32_t>(all.ends.size()));
      all.stream_first.push_back(static_cast<std::uint32_t>(all.streams.size()));
    }
    HOCKET_TRY(all.pair());
    return all;
  }

  Status pair() {
    const std::size_t n = structure.size();
    std::vector<std::vector<std::pair<OutlineEnd, std::int32_t>>> sorted(n);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::uint32_t e = end_first[r]; e < end_first[r + 1]; ++e)
        sorted[r].emplace_back(ends[e], static_cast<std::int32_t>(e - end_first[r]));
      std::sort(sorted[r].begin(), sorted[r].end());
    }
    opposite.resize(ends.size());
    for (std::size_t r = 0; r < n; ++r)
      for (std::uint32_t e = end_first[r]; e < end_first[r + 1]; ++e) {
        const OutlineEnd wanted{ends[e].channel, !ends[e].outgoing, static_cast<std::int32_t>(r), 0};
        const auto& there = sorted[static_cast<std::size_t>(ends[e].peer)];
        const auto found = std::lower_bound(there.begin(), there.end(), std::pair(wanted, std::int32_t{0}));
        if (found == there.end() || found->first != wanted)
          return error(Code::kInternal, "rank {} uses channel {} with rank {}, which does not", r, ends[e].channel,
                       ends[e].peer);
        opposite[e] = found->second;
      }
    return {};
  }
};

class Folder {
 public:
  Folder(const Fabric& fabric, const PlanFamily& family, const Placement& placement, const FoldOptions& options,
         const Outlines& outlines)
      : fabric_(fabric), family_(family), placement_(placement), options_(options), outlines_(outlines) {
    actors_ = placement.size() * static_cast<std::size_t>(family.size);
  }

  FoldedWorld run() {
    world_.fabric = &fabric_;
    world_.all_actors = static_cast<std::int64_t>(actors_);
    world_.copies = static_cast<int>(placement_.size());
    start_colours();
    if (options_.fold) refine();
    keep_actors();
    keep_links();
    return std::move(world_);
  }

 private:
  int copy_of(std::size_t actor) const { return static_cast<int>(actor / static_cast<std::size_t>(family_.size)); }
  int label_of(std::size_t actor) const { return static_cast<int>(actor % static_cast<std::size_t>(family_.size)); }
  std::size_t actor_of(int copy, int label) const {
    return static_cast<std::size_t>(copy) * static_cast<std::size_t>(family_.size) + static_cast<std::size_t>(label);
  }
  int rank_of(int copy, int label) const {
    return placement_[static_cast<std::size_t>(copy)][static_cast<std::size_t>(label)];
  }

  Route way(int copy, int label, const OutlineStream& stream) const {
    const int rank = rank_of(copy, label);
    if (stream.kind == StreamKind::kEngine) return fabric_.engine(rank);
    const int peer = rank_of(copy, stream.peer);
    return stream.kind == StreamKind::kPush ? fabric_.route(rank, peer) : fabric_.route(peer, rank);
  }

  const OutlineEnd& opposite_of(int peer, std::int32_t opposite) const {
    return outlines_.ends[outlines_.end_first[static_cast<std::size_t>(peer)] + static_cast<std::size_t>(opposite)];
  }
  static std::uint64_t role_of(const OutlineStream& stream) {
    return static_cast<std::uint64_t>(stream.phase) << 2 | static_cast<std::uint64_t>(stream.kind);
  }

  template <class Visit>
  void each_stream(std::size_t actor, Visit&& visit) const {
    const int copy = copy_of(actor), label = label_of(actor);
    const std::uint32_t first = outlines_.stream_first[static_cast<std::size_t>(label)];
    const std::uint32_t end = outlines_.stream_first[static_cast<std::size_t>(label) + 1];
    for (std::uint32_t s = first; s < end; ++s)
      visit(s - first, outlines_.streams[s], way(copy, label, outlines_.streams[s]));
  }

  void start_colours() {
    colour_.resize(actors_);
    for (std::size_t a = 0; a < actors_; ++a)
      colour_[a] = options_.fold ? mixed(outlines_.structure[static_cast<std::size_t>(label_of(a))],
                                         bits_of(fabric_.speed(rank_of(copy_of(a), label_of(a)))))
                                 : a;
    link_colour_.resize(static_cast<std::size_t>(fabric_.link_count()));
    for (std::size_t l = 0; l < link_colour_.size(); ++l) link_colour_[l] = plain_link(l);
  }

  std::uint64_t plain_link(std::size_t l) const {
    if (!options_.fold) return l;
    const FabricLink link = fabric_.link(static_cast<int>(l));
    return mixed(mixed(static_cast<std::uint64_t>(link.wire), bits_of(link.bytes_per_second)),
                 bits_of(fabric_.link_factor(static_cast<int>(l))));
  }

  std::size_t count_classes() const {
    std::vector<std::uint64_t> sorted = colour_;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }

  void refine() {
    const int depth = options_.depth > 0
                          ? options_.depth
                          : std::max(40, 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(fabric_.ranks()))));
    std::size_t classes = count_classes();
    int still = 0;
    for (int pass = 0; pass < depth; ++pass) {
      colour_links();
      colour_actors();
      const std::size_t now = count_classes();
      still = now == classes ? still + 1 : 0;
      classes = now;
      // Links may split one pass later than the actors that they split.
      if (still == 3 || classes == actors_) {
        colour_links();
        return;
      }
    }
    colour_links();
    world_.exact = false;
  }

  void colour_links() {
    std::vector<std::uint64_t> sum(link_colour_.size(), 0);
    for (std::size_t a = 0; a < actors_; ++a)
      each_stream(a, [&](std::uint32_t, const OutlineStream& stream, const Route& way) {
        const std::uint64_t sender =
            mixed(mixed(colour_[a], role_of(stream)), colour_[actor_of(copy_of(a), stream.peer)]);
        for (int l = 0; l < way.count; ++l)
          sum[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])] += mixed(sender, 1);
      });
    for (std::size_t l = 0; l < sum.size(); ++l) link_colour_[l] = mixed(plain_link(l), sum[l]);
  }

  // Sums, so that the order of children in a tree tells nothing.
  void colour_actors() {
    std::vector<std::uint64_t> next(actors_);
    for (std::size_t a = 0; a < actors_; ++a) {
      std::uint64_t sum = 0;
      const int copy = copy_of(a);
      each_stream(a, [&](std::uint32_t, const OutlineStream& stream, const Route& way) {
        std::uint64_t one = mixed(role_of(stream), colour_[actor_of(copy, stream.peer)]);
        for (int l = 0; l < way.count; ++l)
          one = mixed(one, link_colour_[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])]);
        sum += mixed(one, 1);
      });
      const auto label = static_cast<std::size_t>(label_of(a));
      for (std::uint32_t e = outlines_.end_first[label]; e < outlines_.end_first[label + 1]; ++e) {
        const OutlineEnd& end = outlines_.ends[e];
        std::uint64_t one = mixed(colour_[actor_of(copy, end.peer)], end.channel * 2u + end.outgoing);
        one = mixed(one, static_cast<std::uint64_t>(end.phase));
        one = mixed(one, static_cast<std::uint64_t>(opposite_of(end.peer, outlines_.opposite[e]).phase));
        // Latency, too, tells peers apart.
        const Route to = fabric_.route(rank_of(copy, static_cast<int>(label)), rank_of(copy, end.peer));
        for (const int hops : to.hops) one = mixed(one, static_cast<std::uint64_t>(hops));
        sum += mixed(one, to.leaves_pod);
      }
      next[a] = mixed(colour_[a], sum);
    }
    colour_ = std::move(next);
  }

  void keep_actors() {
    std::unordered_map<std::uint64_t, std::int32_t> class_of;
    class_.resize(actors_);
    std::vector<std::size_t> kept;
    for (std::size_t a = 0; a < actors_; ++a) {
      const auto [it, fresh] = class_of.try_emplace(colour_[a], static_cast<std::int32_t>(kept.size()));
      class_[a] = it->second;
      if (fresh) {
        kept.push_back(a);
        world_.actors.emplace_back();
        world_.actors.back().members = 0;
      }
      ++world_.actors[static_cast<std::size_t>(it->second)].members;
    }
    std::uint32_t ends = 0;
    for (std::size_t c = 0; c < kept.size(); ++c) {
      Actor& actor = world_.actors[c];
      actor.copy = copy_of(kept[c]);
      actor.label = label_of(kept[c]);
      actor.rank = rank_of(actor.copy, actor.label);
      actor.plan = family_.plan(actor.label);
      const auto label = static_cast<std::size_t>(actor.label);
      actor.first_end = ends;
      actor.end_count = outlines_.end_first[label + 1] - outlines_.end_first[label];
      ends += actor.end_count;
    }
    for (const Actor& actor : world_.actors) {
      const std::uint32_t first = outlines_.end_first[static_cast<std::size_t>(actor.label)];
      for (std::uint32_t e = first; e < first + actor.end_count; ++e) {
        const OutlineEnd& end = outlines_.ends[e];
        const std::int32_t opposite = like_opposite(actor, end, outlines_.opposite[e]);
        world_.ends.push_back(
            {end.channel, end.outgoing, end.peer, opposite, fabric_.route(actor.rank, rank_of(actor.copy, end.peer))});
      }
    }
  }

  /// The end that an end of a kept actor sees: of the actor kept for its peer, the one towards actors like this one.
  std::int32_t like_opposite(const Actor& actor, const OutlineEnd& end, std::int32_t opposite) const {
    const std::int32_t peer_class = class_[actor_of(actor.copy, end.peer)];
    const std::int32_t own_class = class_[actor_of(actor.copy, actor.label)];
    const Actor& like = world_.actors[static_cast<std::size_t>(peer_class)];
    const auto first = static_cast<std::int32_t>(like.first_end);
    if (like.copy == actor.copy && like.label == end.peer) return first + opposite;
    const std::uint32_t there = outlines_.end_first[static_cast<std::size_t>(like.label)];
    const std::int32_t phase = opposite_of(end.peer, opposite).phase;
    std::int32_t similar = -1;
    for (std::uint32_t e = there; e < there + like.end_count; ++e) {
      const OutlineEnd& other = outlines_.ends[e];
      if (other.channel != end.channel || other.outgoing == end.outgoing || other.phase != phase) continue;
      const auto index = static_cast<std::int32_t>(e - there);
      if (class_[actor_of(like.copy, other.peer)] == own_class) return first + index;
      if (similar < 0 || index == opposite) similar = index;
    }
    // Beyond the depth that is told apart, the next best.
    return first + (similar < 0 ? opposite : similar);
  }

  void keep_links() {
    // A link's class is known by its colour; the first of each class that a kept actor uses stands for it.
    std::unordered_map<std::uint64_t, std::int32_t> class_of;
    std::vector<std::int32_t> kept(link_colour_.size(), -1);  // class, of links that stand for theirs
    for (std::size_t c = 0; c < world_.actors.size(); ++c) {
      const Actor& actor = world_.actors[c];
      each_stream(actor_of(actor.copy, actor.label), [&](std::uint32_t, const OutlineStream&, const Route& way) {
        for (int l = 0; l < way.count; ++l) {
          const auto id = static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)]);
          const auto [it, fresh] =
              class_of.try_emplace(link_colour_[id], static_cast<std::int32_t>(world_.links.size()));
          if (!fresh) continue;
          world_.links.push_back({static_cast<int>(id), 0});
          kept[id] = it->second;
        }
      });
    }
    for (const std::uint64_t colour : link_colour_) {
      const auto it = class_of.find(colour);
      if (it != class_of.end()) ++world_.links[static_cast<std::size_t>(it->second)].members;
    }
    // How many transfers of each class really meet on it.
    std::unordered_map<std::uint64_t, double> meet;
    for (std::size_t a = 0; a < actors_; ++a)
      each_stream(a, [&](std::uint32_t, const OutlineStream& stream, const Route& way) {
        for (int l = 0; l < way.count; ++l) {
          const std::int32_t link = kept[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])];
          if (link >= 0) meet[role(a, stream, link)] += 1;
        }
      });
    for (Actor& actor : world_.actors) keep_streams(actor, class_of, meet);
  }

  /// Transfers that are alike: of one class of actors to another, over a class of links.
  std::uint64_t role(std::size_t actor, const OutlineStream& stream, std::int32_t link) const {
    const std::int32_t peer = class_[actor_of(copy_of(actor), stream.peer)];
    return mixed(
        mixed(mixed(static_cast<std::uint64_t>(class_[actor]), role_of(stream)), static_cast<std::uint64_t>(peer)),
        static_cast<std::uint64_t>(link));
  }

  void keep_streams(Actor& actor, const std::unordered_map<std::uint64_t, std::int32_t>& link_class,
                    const std::unordered_map<std::uint64_t, double>& meet) {
    const std::size_t a = actor_of(actor.copy, actor.label);
    const auto class_at = [&](const Route& way, int l) {
      return link_class.at(link_colour_[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])]);
    };
    const auto is_first = [&](const Route& way, int l) {
      for (int k = 0; k < l; ++k)
        if (class_at(way, k) == class_at(way, l)) return false;
      return true;
    };
    // Alike ones of this actor share what meets.
    std::unordered_map<std::uint64_t, double> alike;
    each_stream(a, [&](std::uint32_t, const OutlineStream& of, const Route& way) {
      for (int l = 0; l < way.count; ++l)
        if (is_first(way, l)) alike[role(a, of, class_at(way, l))] += 1;
    });
    actor.first_stream = static_cast<std::uint32_t>(world_.streams.size());
    each_stream(a, [&](std::uint32_t, const OutlineStream& of, const Route& way) {
      Stream stream{of.peer,
                    of.kind,
                    static_cast<std::uint32_t>(world_.loads.size()),
                    0,
                    Wire::kCore,
                    actor.rank,
                    rank_of(actor.copy, of.peer)};
      if (of.kind == StreamKind::kPull) std::swap(stream.from, stream.to);
      double narrowest = 0;
      for (int l = 0; l < way.count; ++l) {
        if (!is_first(way, l)) continue;
        const std::uint64_t key = role(a, of, class_at(way, l));
        const auto found = meet.find(key);
        world_.loads.push_back({class_at(way, l), found == meet.end() ? 1 : found->second / alike.at(key)});
        const int id = way.links[static_cast<std::size_t>(l)];
        const double rate = fabric_.link(id).bytes_per_second * fabric_.link_factor(id);
        if (narrowest != 0 && rate >= narrowest) continue;
        narrowest = rate;
        stream.wire = fabric_.link(id).wire;
      }
      stream.link_count = static_cast<std::uint32_t>(world_.loads.size()) - stream.first_link;
      world_.streams.push_back(stream);
    });
    actor.stream_count = static_cast<std::uint32_t>(world_.streams.size()) - actor.first_stream;
  }

  const Fabric& fabric_;
  const PlanFamily& family_;
  const Placement& placement_;
  const FoldOptions& options_;
  const Outlines& outlines_;
  std::size_t actors_ = 0;
  std::vector<std::uint64_t> colour_;       // [actor]
  std::vector<std::uint64_t> link_colour_;  // [Fabric link]
  std::vector<std::int32_t> class_;         // [actor]
  FoldedWorld world_;
};

}  // namespace

Result<FoldedWorld> fold(const Fabric& fabric, const PlanFamily& family, const Placement& placement,
                         const FoldOptions& options) {
  if (placement.empty() || placement.size() * static_cast<std::size_t>(family.size) > kMostActors)
    return error(Code::kUnsupported, "{} copies of a plan of {} ranks: up to {} actors are simulated", placement.size(),
                 family.size, kMostActors);
  for (const std::vector<int>& place : placement)
    if (place.size() != static_cast<std::size_t>(family.size))
      return error(Code::kInvalidArgument, "a placement of {} ranks for plans of {}", place.size(), family.size);
  HOCKET_ASSIGN(const Outlines outlines, Outlines::of(family, fabric.limits_copying()));
  return Folder(fabric, family, placement, options, outlines).run();
}

}  // namespace hocket::sim
