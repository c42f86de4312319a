// SPDX-License-Identifier: Apache-2.0
// topo/search.hpp: the rings and trees that a machine's links carry best, with the proof.
//
// GPUs that NVLink or xGMI joins are an island. Inside one, rings are counted in links: a crossbar of NVSwitches
// carries as many as its poorest GPU has links, a mesh as many as disjoint_rings.hpp finds. An island that is a mixture
// of both, and a machine of several islands, or of none (PCI only), gets rings over all its GPUs: for one rate after the
// other, as many as fit, nearest GPU first. A RingSet carries its proof: the load on each link, and a bound that no solution exceeds (every ring
// crosses every cut between two GPUs, so all together carry no more than the smallest maximum flow).
//
// Trees are packed for themselves: edge-disjoint spanning trees of a mesh, chains that take turns at their ends or
// double binary trees on a switch, trees grown over shared links elsewhere (tree_packer.hpp). Each carries a reduction
// up and a broadcast down at once, so a hop loads its links both ways. A TreeSet carries its proof, too.
//
// Deterministic and bounded: 16 GPUs in tens of ms, 72 in a second or two; more than
// 576, or 128 in one mesh, are not searched. Any thread. Source of the idea to search rings on
// shared links: NCCL; of the proof: Menger 1927.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"
#include "topo/paths.hpp"

namespace hocket::topo {

struct Ring {
  std::vector<int> gpus;        ///< Graph nodes in ring order; the last one sends to the first
  double bytes_per_second = 0;  ///< what it has of each link that it uses
};

struct RingSet {
  std::vector<Ring> rings;
  double bytes_per_second = 0;        ///< of all rings together
  double bound_bytes_per_second = 0;  ///< no set of rings carries more
  int bound_rings = 0;                ///< in meshes and crossbars: no set has more rings of one link each; else 0
  bool best = false;                  ///< the bound is met, or everything else was tried
  std::vector<double> loads;          ///< [Paths::links()], bytes/s

  /// What is missing to the bound, 0 to 1.
  double gap() const { return bound_bytes_per_second > 0 ? 1 - bytes_per_second / bound_bytes_per_second : 0; }
};

enum class IslandKind {
  kAlone,     ///< one GPU
  kMesh,      ///< GPUs joined pair by pair
  kSwitched,  ///< GPUs on NVSwitches
  kMixed,     ///< on NVSwitches some pairs, joined directly others: hops share links
};

struct Island {
  IslandKind kind = IslandKind::kAlone;
  std::vector<int> gpus;  ///< Graph nodes, in the order of Paths::gpus()
  int links = 0;          ///< of the GPU that has fewest, inside the island
  bool complete = false;  ///< each GPU reaches each other one in one hop
  RingSet rings;          ///< of this island alone; none for one GPU
};

struct Tree {
  std::vector<int> gpus;        ///< Graph nodes
  std::vector<int> parent;      ///< [gpus]: index in `gpus`; -1 for the root
  double bytes_per_second = 0;  ///< up and down at once
};

struct TreeSet {
  std::vector<Tree> trees;
  double bytes_per_second = 0;        ///< of all trees together
  double bound_bytes_per_second = 0;  ///< no set of trees carries more
  int bound_trees = 0;                ///< in meshes: no set has more trees of one link each; else 0
  bool best = false;                  ///< the bound is met, in meshes by the number of trees
  std::vector<double> loads;          ///< [Paths::links()], bytes/s

  double gap() const { return bound_bytes_per_second > 0 ? 1 - bytes_per_second / bound_bytes_per_second : 0; }
};

struct SearchResult {
  std::vector<Island> islands;  ///< largest first
  RingSet machine;              ///< rings over all GPUs; of the island itself where there is only one
  TreeSet trees;                ///< over all GPUs
  /// What a healthy machine would not have: a GPU with fewer links than its like, a narrow PCI link …
  std::vector<std::string> findings;

  /// Every GPU reaches every other one at full rate in one hop, so that direct algorithms need no ring.
  bool direct() const { return islands.size() == 1 && islands[0].complete; }
};

SearchResult search(const Paths& paths);

/// kInternal if a ring misses a GPU or uses one twice, or if a link carries more than it can. Every result of search()
/// holds; this is for tests and for rings from elsewhere.
Status check_rings(const Paths& paths, const std::vector<int>& gpus, const RingSet& set);

/// kInternal if a tree misses a GPU or is none, or if a link carries more than it can; as check_rings.
Status check_trees(const Paths& paths, const std::vector<int>& gpus, const TreeSet& set);

/// Hops from the root to the farthest GPU.
int depth_of(const Tree& tree);

/// "3 > 1 2; 1 > 0": who is above whom, from the root on.
std::string tree_text(const Graph& graph, const Tree& tree);

/// "switch of 18 links", "mesh, 6 links, 4 neighbours", "2 meshes of 4, 3 links", "PCI".
std::string structure_text(const Paths& paths, const SearchResult& result);

/// For people: islands, rings with their orders, trees, bound and gap, findings.
std::string search_text(const Paths& paths, const SearchResult& result);

}  // namespace hocket::topo
