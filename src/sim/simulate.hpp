// SPDX-License-Identifier: Apache-2.0
// sim/simulate.hpp: what a collective takes by one algorithm on a Fabric, for any size.
//
// A Simulation is one algorithm's folded world, or two that follow each other; price() runs it for a size. Tiles,
// slots and tiles a round are as an executor's. Calls of many rounds, or of very many steps, are run in part
// (sim/extrapolate.hpp). With `full`, nothing is folded and nothing is extrapolated. Pure; one thread per Simulation.
// Next stop: sim/fold.hpp, sim/extrapolate.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/types.hpp"
#include "sim/extrapolate.hpp"
#include "sim/placement.hpp"
#include "sim/replay.hpp"

namespace hocket::sim {

struct Setup {
  int slots = 8;
  std::uint64_t slot_bytes = 512 << 10;
  int tiles_per_round = 4;
  std::uint64_t tile_bytes =
      0;  ///< 0: of a chunk an eighth, or what a step's tiles are; 8 KiB at least, a slot's piece at most
  Rank root = 0;
  bool full = false;
  int depth = 0;                 ///< of FoldOptions
  bool average = false;          ///< likewise
  std::size_t most_near = 0;     ///< likewise
  double most_work = kMostWork;  ///< beyond it, only the first of a plan's many equal steps are run
};

struct Price {
  double seconds = 0;
  double algbw = 0;  ///< bytes/s, as nccl-tests defines them
  double busbw = 0;
  Spent spent;
  std::vector<Hop> path;    ///< of the last stage; empty if it was extrapolated or too long
  int busiest_link = -1;    ///< of the Fabric: the one that carries most for its rate, of all links of all ranks
  double busiest_load = 0;  ///< of its capacity, over the whole time
  double busiest_bytes = 0;
  std::uint64_t moves = 0;  ///< that were simulated
  std::uint64_t events = 0;
  double least_seconds = 0;  ///< what the busiest link needs for its bytes
  bool extrapolated = false;
  double doubt = 0;  ///< of an extrapolated price, relative: how uneven the call still was (sim/extrapolate.hpp)
  std::string_view protocol;
};

/// nccl-tests' factor from algbw to busbw.
double bus_factor(Collective collective, int ranks);

/// All names that Simulation::make takes for a collective.
std::vector<std::string_view> simulated_algorithms(Collective collective);
/// Whether the library runs it: "hierarchical" is a plan of the simulator's alone (sim/hierarchical.hpp).
bool in_library(Collective collective, std::string_view algorithm);

class Simulation {
 public:
  /// `algorithm` is one of the registry, "hierarchical" (all-reduce only: sim/hierarchical.hpp), or for all-reduce
  /// "log_step", which is reduce-scatter and then all-gather by log_step. The Fabric must outlive it.
  /// kInvalidArgument for names that are not there, kUnsupported for worlds too large for the algorithm.
  static Result<Simulation> make(const Fabric& fabric, const Placement& placement, Collective collective,
                                 std::string_view algorithm, const Setup& setup);

  /// `bytes` as nccl-tests counts them: the whole buffer; of all-gather the output, of reduce-scatter the input, of
  /// all-to-all what a rank sends.
  Result<Price> price(std::uint64_t bytes, const Costs& costs) const;

  /// Slots and tiles of the next price(); the world stays.
  void set_tiles(const Setup& setup) {
    setup_.slots = setup.slots;
    setup_.slot_bytes = setup.slot_bytes;
    setup_.tiles_per_round = setup.tiles_per_round;
    setup_.tile_bytes = setup.tile_bytes;
  }

  const FoldedWorld& world(int stage) const { return stages_[static_cast<std::size_t>(stage)].world; }
  int stages() const { return static_cast<int>(stages_.size()); }
  const std::string& algorithm() const { return algorithm_; }
  /// Actors that are simulated, of all.
  std::size_t classes() const;

 private:
  struct Stage {
    FoldedWorld world;
    Collective collective;
    std::uint64_t pieces = 1;
    bool slots = true;
  };
  Shape shape_of(const Stage& stage, std::uint64_t bytes) const;

  const Fabric* fabric_ = nullptr;
  Collective collective_ = Collective::kAllReduce;
  std::string algorithm_;
  Setup setup_;
  std::vector<Stage> stages_;
};

/// The faster of both protocols of GPUs; of a machine without GPUs, the host's.
Result<Price> price_best(const Simulation& simulation, const Fabric& fabric, std::uint64_t bytes);

}  // namespace hocket::sim
