// SPDX-License-Identifier: Apache-2.0
#include "sim/fold.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "base/status.hpp"
#include "sim/outline.hpp"

namespace hocket::sim {
namespace {

constexpr std::size_t kMostActors = std::size_t{4} << 20;
// Beyond that, links are averaged.
constexpr std::size_t kMostClasses = 1024;
constexpr std::size_t kMostNear = 256;

std::uint64_t bits_of(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

class Folder {
 public:
  Folder(const Fabric& fabric, const PlanFamily& family, const Placement& placement, const FoldOptions& options,
         const Outlines& outlines)
      : fabric_(fabric),
        family_(family),
        placement_(placement),
        options_(options),
        outlines_(outlines),
        components_(outlines.components.count()) {
    actors_ = placement.size() * static_cast<std::size_t>(family.size * components_);
  }

  FoldedWorld run() {
    world_.fabric = &fabric_;
    world_.all_actors = static_cast<std::int64_t>(actors_);
    world_.copies = static_cast<int>(placement_.size());
    start_colours();
    if (options_.fold) {
      if (!options_.average) refine(false);
      if (options_.average || count_classes() > kMostClasses) refine(true);
    }
    keep_actors();
    keep_links();
    if (averaged_) find_arrivals();
    for (Actor& actor : world_.actors) keep_streams(actor);
    sum_loads();
    return std::move(world_);
  }

 private:
  // A layer is one component of one copy; peers are in the same layer.
  int layer_of(std::size_t actor) const { return static_cast<int>(actor / static_cast<std::size_t>(family_.size)); }
  int label_of(std::size_t actor) const { return static_cast<int>(actor % static_cast<std::size_t>(family_.size)); }
  std::size_t actor_of(int layer, int label) const {
    return static_cast<std::size_t>(layer) * static_cast<std::size_t>(family_.size) + static_cast<std::size_t>(label);
  }
  std::size_t unit_of(int layer, int label) const { return actor_of(layer % components_, label); }
  int rank_of(int layer, int label) const {
    return placement_[static_cast<std::size_t>(layer / components_)][static_cast<std::size_t>(label)];
  }
  std::size_t kept_actor(const Actor& actor) const { return actor_of(actor.layer, actor.label); }

  Route way(int layer, int label, const OutlineStream& stream) const {
    const int rank = rank_of(layer, label);
    if (stream.kind == StreamKind::kEngine) return fabric_.engine(rank);
    const int peer = rank_of(layer, stream.peer);
    return stream.kind == StreamKind::kPush ? fabric_.route(rank, peer) : fabric_.route(peer, rank);
  }

  const OutlineEnd& opposite_of(int layer, const OutlineEnd& end, std::int32_t opposite) const {
    return outlines_.ends[outlines_.end_first[unit_of(layer, end.peer)] + static_cast<std::size_t>(opposite)];
  }
  static std::uint64_t role_of(const OutlineStream& stream) {
    return static_cast<std::uint64_t>(stream.phase) << 2 | static_cast<std::uint64_t>(stream.kind);
  }

  template <class Visit>
  void each_stream(std::size_t actor, Visit&& visit) const {
    const int layer = layer_of(actor), label = label_of(actor);
    const std::size_t unit = unit_of(layer, label);
    for (std::uint32_t s = outlines_.stream_first[unit]; s < outlines_.stream_first[unit + 1]; ++s)
      visit(outlines_.streams[s], way(layer, label, outlines_.streams[s]));
  }

  void start_colours() {
    start_.resize(actors_);
    for (std::size_t a = 0; a < actors_; ++a) {
      const int layer = layer_of(a), label = label_of(a);
      start_[a] = options_.fold ? outlines_.structure[unit_of(layer, label)] : a;
    }
    colour_ = start_;
    link_colour_.resize(static_cast<std::size_t>(fabric_.link_count()));
    for (std::size_t l = 0; l < link_colour_.size(); ++l) link_colour_[l] = plain_link(l);
  }

  std::uint64_t plain_link(std::size_t l) const {
    if (!options_.fold) return l;
    const FabricLink link = fabric_.link(static_cast<int>(l));
    return mixed(mixed(static_cast<std::uint64_t>(link.wire), bits_of(link.bytes_per_second)),
                 bits_of(near_ ? fabric_.link_factor(static_cast<int>(l)) : 1));
  }

  std::size_t count_classes() const {
    std::vector<std::uint64_t> sorted = colour_;
    std::sort(sorted.begin(), sorted.end());
    return static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
  }

  /// `average`: links are told apart by their kind and rate alone, and not by who uses them.
  void refine(bool average) {
    colour_ = start_;
    averaged_ = average;
    near_ = false;
    plain_links();
    world_.exact = spread(average ? actors_ : kMostClasses) && !average;
    if (fabric_.even() || (!average && count_classes() > kMostClasses && count_classes() < actors_)) return;
    near_ = true;
    for (std::size_t a = 0; a < actors_; ++a)
      if (const double speed = fabric_.speed(rank_of(layer_of(a), label_of(a))); speed != 1)
        colour_[a] = mixed(colour_[a], bits_of(speed));
    plain_links();
    const std::size_t most_near = options_.most_near != 0   ? options_.most_near
                                  : actors_ <= kMostClasses ? actors_
                                                            : kMostNear;
    if (spread(count_classes() + most_near)) {
      if (averaged_) part_near_links();
      return;
    }
    world_.exact = false;
    if (averaged_) part_near_links();
    colour_by_distance();
  }

  /// Whoever is beyond the classes that can be told apart is told by how far away it is. Else it would see nobody whom
  /// the trouble holds up, and go on as if there were none.
  void colour_by_distance() {
    std::vector<std::uint32_t> distance(actors_, 0);
    std::vector<std::size_t> reached;
    for (std::size_t a = 0; a < actors_; ++a)
      if (has_trouble(a)) {
        distance[a] = 1;
        reached.push_back(a);
      }
    for (std::size_t next = 0; next < reached.size(); ++next) {
      const std::size_t a = reached[next];
      const int layer = layer_of(a);
      const std::size_t unit = unit_of(layer, label_of(a));
      for (std::uint32_t e = outlines_.end_first[unit]; e < outlines_.end_first[unit + 1]; ++e) {
        const std::size_t peer = actor_of(layer, outlines_.ends[e].peer);
        if (distance[peer] != 0) continue;
        distance[peer] = distance[a] + 1;
        reached.push_back(peer);
      }
    }
    for (std::size_t a = 0; a < actors_; ++a) colour_[a] = mixed(colour_[a], bucket(distance[a]));
  }

  /// Distances of many hops, which only rings and chains have, are told apart by a factor of two.
  static std::uint64_t bucket(std::uint32_t distance) {
    constexpr std::uint32_t kEach = 64;
    return distance < kEach ? distance : kEach + static_cast<std::uint64_t>(std::bit_width(distance));
  }

  bool has_trouble(std::size_t actor) const {
    if (fabric_.speed(rank_of(layer_of(actor), label_of(actor))) != 1) return true;
    bool slow = false;
    each_stream(actor, [&](const OutlineStream&, const Route& way) {
      for (int l = 0; l < way.count; ++l) slow |= fabric_.link_factor(way.links[static_cast<std::size_t>(l)]) != 1;
    });
    return slow;
  }

  /// The links of actors that are a class each are not averaged with others.
  void part_near_links() {
    std::unordered_map<std::uint64_t, int> members;
    for (const std::uint64_t colour : colour_) ++members[colour];
    for (std::size_t a = 0; a < actors_; ++a) {
      if (members.at(colour_[a]) > 1) continue;
      each_stream(a, [&](const OutlineStream&, const Route& way) {
        for (int l = 0; l < way.count; ++l) {
          const auto id = static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)]);
          link_colour_[id] = mixed(0, id);
        }
      });
    }
  }

  void plain_links() {
    if (averaged_) return colour_links_by_load();
    for (std::size_t l = 0; l < link_colour_.size(); ++l) link_colour_[l] = plain_link(l);
  }

  /// Colours spread until no class splits: true. Or to the depth, or to the last pass before there are more than `most`
  /// classes (around a trouble; else to the first after it): false.
  bool spread(std::size_t most) {
    const int depth = options_.depth > 0
                          ? options_.depth
                          : std::max(40, 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(fabric_.ranks()))));
    std::size_t classes = count_classes();
    bool ended = false;
    std::vector<std::uint64_t> before;
    for (int pass = 0, still = 0; pass < depth && !ended; ++pass) {
      if (near_) before = colour_;
      if (!averaged_) colour_links();
      colour_actors();
      const std::size_t now = count_classes();
      still = now == classes ? still + 1 : 0;
      classes = now;
      if (classes > most && (near_ || classes < actors_)) {
        if (near_) colour_ = std::move(before);
        break;
      }
      // Links may split one pass later than the actors that they split.
      ended = still >= 3 || classes == actors_;
    }
    if (!averaged_) colour_links();
    return ended;
  }

  void colour_links() {
    std::vector<std::uint64_t> sum(link_colour_.size(), 0);
    for (std::size_t a = 0; a < actors_; ++a)
      each_stream(a, [&](const OutlineStream& stream, const Route& way) {
        const std::uint64_t sender =
            mixed(mixed(colour_[a], role_of(stream)), colour_[actor_of(layer_of(a), stream.peer)]);
        for (int l = 0; l < way.count; ++l)
          sum[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])] += mixed(sender, 1);
      });
    for (std::size_t l = 0; l < sum.size(); ++l) link_colour_[l] = mixed(plain_link(l), sum[l]);
  }

  /// Links are averaged with those of their kind that plans of equal structure use in equal parts.
  void colour_links_by_load() {
    std::vector<std::uint64_t> sum(link_colour_.size(), 0);
    for (std::size_t a = 0; a < actors_; ++a)
      each_stream(a, [&](const OutlineStream& stream, const Route& way) {
        for (int l = 0; l < way.count; ++l)
          sum[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])] += mixed(start_[a], role_of(stream));
      });
    for (std::size_t l = 0; l < sum.size(); ++l) link_colour_[l] = mixed(plain_link(l), sum[l]);
  }

  // Sums, so that the order of children in a tree tells nothing.
  void colour_actors() {
    std::vector<std::uint64_t> next(actors_);
    for (std::size_t a = 0; a < actors_; ++a) {
      std::uint64_t sum = 0;
      const int layer = layer_of(a), label = label_of(a);
      each_stream(a, [&](const OutlineStream& stream, const Route& way) {
        std::uint64_t one = mixed(role_of(stream), colour_[actor_of(layer, stream.peer)]);
        for (int l = 0; l < way.count; ++l)
          one = mixed(one, link_colour_[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])]);
        sum += mixed(one, 1);
      });
      const std::size_t unit = unit_of(layer, label);
      for (std::uint32_t e = outlines_.end_first[unit]; e < outlines_.end_first[unit + 1]; ++e) {
        const OutlineEnd& end = outlines_.ends[e];
        std::uint64_t one = mixed(colour_[actor_of(layer, end.peer)], end.channel * 2u + end.outgoing);
        one = mixed(one, static_cast<std::uint64_t>(end.phase));
        one = mixed(one, static_cast<std::uint64_t>(opposite_of(layer, end, outlines_.opposite[e]).phase));
        // Latency, too, tells peers apart.
        const Route to = fabric_.route(rank_of(layer, label), rank_of(layer, end.peer));
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
    std::uint32_t ends = 0;
    for (std::size_t a = 0; a < actors_; ++a) {
      const auto [it, fresh] = class_of.try_emplace(colour_[a], static_cast<std::int32_t>(world_.actors.size()));
      class_[a] = it->second;
      if (!fresh) {
        ++world_.actors[static_cast<std::size_t>(it->second)].members;
        continue;
      }
      Actor actor;
      actor.layer = layer_of(a);
      actor.label = label_of(a);
      actor.rank = rank_of(actor.layer, actor.label);
      actor.plan = family_.plan(actor.label);
      outlines_.components.keep(actor.plan, actor.layer % components_);
      const std::size_t unit = unit_of(actor.layer, actor.label);
      actor.first_end = ends;
      actor.end_count = outlines_.end_first[unit + 1] - outlines_.end_first[unit];
      ends += actor.end_count;
      world_.actors.push_back(std::move(actor));
    }
    for (const Actor& actor : world_.actors) {
      const std::uint32_t first = outlines_.end_first[unit_of(actor.layer, actor.label)];
      for (std::uint32_t e = first; e < first + actor.end_count; ++e) {
        const OutlineEnd& end = outlines_.ends[e];
        const std::int32_t opposite = like_opposite(actor, end, outlines_.opposite[e]);
        world_.ends.push_back(
            {end.channel, end.outgoing, end.peer, opposite, fabric_.route(actor.rank, rank_of(actor.layer, end.peer))});
      }
    }
  }

  /// The end that an end of a kept actor sees: of the actor kept for its peer, the one towards actors like this one.
  std::int32_t like_opposite(const Actor& actor, const OutlineEnd& end, std::int32_t opposite) const {
    const std::int32_t peer_class = class_[actor_of(actor.layer, end.peer)];
    const std::int32_t own_class = class_[kept_actor(actor)];
    const Actor& like = world_.actors[static_cast<std::size_t>(peer_class)];
    const auto first = static_cast<std::int32_t>(like.first_end);
    if (like.layer == actor.layer && like.label == end.peer) return first + opposite;
    const std::uint32_t there = outlines_.end_first[unit_of(like.layer, like.label)];
    const std::int32_t phase = opposite_of(actor.layer, end, opposite).phase;
    std::int32_t similar = -1;
    for (std::uint32_t e = there; e < there + like.end_count; ++e) {
      const OutlineEnd& other = outlines_.ends[e];
      if (other.channel != end.channel || other.outgoing == end.outgoing || other.phase != phase) continue;
      const auto index = static_cast<std::int32_t>(e - there);
      if (class_[actor_of(like.layer, other.peer)] == own_class) return first + index;
      if (similar < 0 || index == opposite) similar = index;
    }
    // Beyond the depth that is told apart, the next best.
    return first + (similar < 0 ? opposite : similar);
  }

  void keep_links() {
    for (const Actor& actor : world_.actors)
      each_stream(kept_actor(actor), [&](const OutlineStream&, const Route& way) {
        for (int l = 0; l < way.count; ++l) {
          const int id = way.links[static_cast<std::size_t>(l)];
          const auto [it, fresh] = link_class_.try_emplace(link_colour_[static_cast<std::size_t>(id)],
                                                           static_cast<std::int32_t>(world_.links.size()));
          if (fresh) world_.links.push_back({id, 0});
        }
      });
    for (const std::uint64_t colour : link_colour_) {
      const auto it = link_class_.find(colour);
      if (it != link_class_.end()) ++world_.links[static_cast<std::size_t>(it->second)].members;
    }
    // How many transfers of each role there are on all links of a class together.
    for (std::size_t a = 0; a < actors_; ++a)
      each_stream(a, [&](const OutlineStream& stream, const Route& way) {
        for (int l = 0; l < way.count; ++l) {
          const auto it =
              link_class_.find(link_colour_[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])]);
          if (it == link_class_.end()) continue;
          meet_[role(a, stream, it->second)] += 1;
          sent_[role_to_any(a, stream, it->second)] += 1;
        }
      });
  }

  std::int32_t class_at(const Route& way, int l) const {
    return link_class_.at(link_colour_[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])]);
  }

  /// Transfers that are alike: of one class of actors to another, over a class of links.
  std::uint64_t role(std::size_t actor, const OutlineStream& stream, std::int32_t link) const {
    const std::int32_t peer = class_[actor_of(layer_of(actor), stream.peer)];
    return mixed(
        mixed(mixed(static_cast<std::uint64_t>(class_[actor]), role_of(stream)), static_cast<std::uint64_t>(peer)),
        static_cast<std::uint64_t>(link));
  }

  /// Likewise, to whomever.
  std::uint64_t role_to_any(std::size_t actor, const OutlineStream& stream, std::int32_t link) const {
    return mixed(mixed(static_cast<std::uint64_t>(class_[actor]), role_of(stream)), static_cast<std::uint64_t>(link));
  }

  /// Where links are averaged: what arrives at each kept actor over links that several of its peers share.
  void find_arrivals() {
    std::vector<std::int32_t> kept(actors_, -1);
    for (std::size_t c = 0; c < world_.actors.size(); ++c) kept[kept_actor(world_.actors[c])] = static_cast<int>(c);
    std::vector<std::unordered_map<int, int>> uses(world_.actors.size());
    const auto each_arrival = [&](auto&& visit) {
      for (std::size_t a = 0; a < actors_; ++a)
        each_stream(a, [&](const OutlineStream& stream, const Route& way) {
          const std::int32_t to = kept[actor_of(layer_of(a), stream.peer)];
          if (to < 0 || stream.kind == StreamKind::kEngine) return;
          for (int l = 0; l < way.count; ++l) visit(a, to, stream, way.links[static_cast<std::size_t>(l)]);
        });
    };
    each_arrival([&](std::size_t, std::int32_t to, const OutlineStream&, int link) {
      ++uses[static_cast<std::size_t>(to)][link];
    });
    std::vector<std::unordered_map<int, std::int32_t>> own(world_.actors.size());
    each_arrival([&](std::size_t a, std::int32_t to, const OutlineStream& stream, int link) {
      if (uses[static_cast<std::size_t>(to)][link] < 2) return;
      const auto [it, fresh] =
          own[static_cast<std::size_t>(to)].try_emplace(link, static_cast<std::int32_t>(world_.links.size()));
      if (fresh) world_.links.push_back({link, 1});
      arrivals_[role(a, stream, -1)][it->second] += 1;
    });
  }

  void keep_streams(Actor& actor) {
    const std::size_t a = kept_actor(actor);
    const auto is_first = [&](const Route& way, int l) {
      for (int k = 0; k < l; ++k)
        if (class_at(way, k) == class_at(way, l)) return false;
      return true;
    };
    // Alike ones of this actor: over a class of links, and over one of its links.
    std::unordered_map<std::uint64_t, double> alike, together;
    // What its class sends over a class of links to classes that this actor sends to.
    std::unordered_map<std::uint64_t, double> covered;
    each_stream(a, [&](const OutlineStream& of, const Route& way) {
      alike[role(a, of, -1)] += 1;
      for (int l = 0; l < way.count; ++l) {
        if (!is_first(way, l)) continue;
        const std::uint64_t key = role(a, of, class_at(way, l));
        if ((alike[key] += 1) == 1) covered[role_to_any(a, of, class_at(way, l))] += meet_.at(key);
        together[mixed(key, static_cast<std::uint64_t>(way.links[static_cast<std::size_t>(l)]))] += 1;
      }
    });
    std::unordered_map<int, std::int32_t> own;  // links of this actor alone
    actor.first_stream = static_cast<std::uint32_t>(world_.streams.size());
    each_stream(a, [&](const OutlineStream& of, const Route& way) {
      Stream stream{of.peer,
                    of.kind,
                    static_cast<std::uint32_t>(world_.loads.size()),
                    0,
                    Wire::kCore,
                    actor.rank,
                    rank_of(actor.layer, of.peer)};
      if (of.kind == StreamKind::kPull) std::swap(stream.from, stream.to);
      double narrowest = 0;
      for (int l = 0; l < way.count; ++l) {
        if (!is_first(way, l)) continue;
        const int id = way.links[static_cast<std::size_t>(l)];
        const std::int32_t link = class_at(way, l);
        const std::uint64_t key = role(a, of, link);
        // Beyond the depth, others of the class send to classes that this one does not: it carries their bytes too.
        const std::uint64_t any = role_to_any(a, of, link);
        const double mean = meet_.at(key) * (sent_.at(any) / covered.at(any)) /
                            static_cast<double>(world_.links[static_cast<std::size_t>(link)].members);
        world_.loads.push_back({link, mean / alike.at(key)});
        // Where only some links of the class carry this at all, this one still carries all of it.
        if (mean < together.at(mixed(key, static_cast<std::uint64_t>(id))) - 1e-9) {
          const auto [it, fresh] = own.try_emplace(id, static_cast<std::int32_t>(world_.links.size()));
          if (fresh) world_.links.push_back({id, 1});
          world_.loads.push_back({it->second, 1});
        }
        const double rate = fabric_.link(id).bytes_per_second * fabric_.link_factor(id);
        if (narrowest != 0 && rate >= narrowest) continue;
        narrowest = rate;
        stream.wire = fabric_.link(id).wire;
      }
      if (const auto there = arrivals_.find(role(a, of, -1)); there != arrivals_.end())
        for (const auto& [link, streams] : there->second)
          world_.loads.push_back({link, streams / alike.at(role(a, of, -1))});
      stream.link_count = static_cast<std::uint32_t>(world_.loads.size()) - stream.first_link;
      world_.streams.push_back(stream);
    });
    actor.stream_count = static_cast<std::uint32_t>(world_.streams.size()) - actor.first_stream;
  }

  /// What each link carries, by streams of the first kept actor whose plan has the same structure.
  void sum_loads() {
    std::unordered_map<std::uint64_t, std::uint32_t> first;  // [structure]
    for (const Actor& actor : world_.actors) first.try_emplace(start_[kept_actor(actor)], actor.first_stream);
    std::vector<std::map<std::uint32_t, std::int32_t>> carried(link_colour_.size());
    for (std::size_t a = 0; a < actors_; ++a) {
      std::uint32_t stream = first.at(start_[a]);
      each_stream(a, [&](const OutlineStream&, const Route& way) {
        for (int l = 0; l < way.count; ++l)
          ++carried[static_cast<std::size_t>(way.links[static_cast<std::size_t>(l)])][stream];
        ++stream;
      });
    }
    std::unordered_map<std::uint64_t, bool> seen;
    for (std::size_t l = 0; l < carried.size(); ++l) {
      if (carried[l].empty()) continue;
      const FabricLink link = fabric_.link(static_cast<int>(l));
      std::uint64_t hash = mixed(mixed(static_cast<std::uint64_t>(link.wire), bits_of(link.bytes_per_second)),
                                 bits_of(fabric_.link_factor(static_cast<int>(l))));
      for (const auto& [stream, times] : carried[l])
        hash = mixed(mixed(hash, stream), static_cast<std::uint64_t>(times));
      if (seen.try_emplace(hash, true).second)
        world_.carried.push_back({static_cast<int>(l), {carried[l].begin(), carried[l].end()}});
    }
  }

  const Fabric& fabric_;
  const PlanFamily& family_;
  const Placement& placement_;
  const FoldOptions& options_;
  const Outlines& outlines_;
  int components_ = 1;
  std::size_t actors_ = 0;
  std::vector<std::uint64_t> start_, colour_;  // [actor]
  std::vector<std::uint64_t> link_colour_;     // [Fabric link]
  std::vector<std::int32_t> class_;            // [actor]
  std::unordered_map<std::uint64_t, std::int32_t> link_class_;
  std::unordered_map<std::uint64_t, double> meet_, sent_;
  bool averaged_ = false;
  bool near_ = false;                                                           // slow links and ranks are told apart
  std::unordered_map<std::uint64_t, std::map<std::int32_t, double>> arrivals_;  // by role: links at the receiver
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
