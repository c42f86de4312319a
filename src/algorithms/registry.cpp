// SPDX-License-Identifier: Apache-2.0
#include "algorithms/registry.hpp"

#include <bit>

#include "algorithms/algorithms.hpp"
#include "algorithms/builder.hpp"

namespace hocket {
namespace {

int never(int) {
  return 0;
}
int once(int world) {
  return world > 1 ? 1 : 0;
}
int every_hop(int world) {
  return world - 1;
}

int every_level(int world) {
  int levels = 0;
  for (int reach = 1; reach < world; reach *= 2) ++levels;
  return levels;
}

int half(int world) {
  return world / 2;
}
int half_of_power(int world) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(world))) / 2;
}
int all_chunks(int world) {
  return world;
}

constexpr std::string_view kRing = "chunks go round a ring; Patarasuk and Yuan, JPDC 2009";
constexpr std::string_view kTree =
    "along two binary trees, half each; Sanders, Speck and Traff, Parallel Computing 2009";
constexpr std::string_view kHalving =
    "partners at distances that halve, then double; Thakur, Rabenseifner and Gropp, IJHPCA 2005";
constexpr std::string_view kPairwise = "one partner after the other; Thakur, Rabenseifner and Gropp, IJHPCA 2005";
constexpr std::string_view kBinomial = "along a binomial tree; Thakur, Rabenseifner and Gropp, IJHPCA 2005";
constexpr std::string_view kBruck =
    "partners at distances that double; Bruck, Ho, Kipnis, Upfal and Weathersby, TPDS 1997";

/// Where one Move names every rank: as many spans as executors hold on their stacks (HostLane::kMaxSpans), some spare.
constexpr int kMostSpans = 128;

constexpr Algorithm kAlgorithms[] = {
    {.collective = Collective::kAllReduce,
     .name = "one_shot",
     .build = one_shot_all_reduce,
     .many_lanes = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "each rank sends all it has to all others, and reduces all of it"},
    {.collective = Collective::kAllReduce,
     .name = "one_shot_board",
     .build = one_shot_board_all_reduce,
     .boards = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "as one_shot, but written once, where all others read it"},
    {.collective = Collective::kAllReduce,
     .name = "two_shot",
     .build = two_shot_all_reduce,
     .many_lanes = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "each rank reduces a chunk of all ranks, and sends it to all"},
    {.collective = Collective::kAllReduce,
     .name = "two_shot_board",
     .build = two_shot_board_all_reduce,
     .boards = true,
     .ordered = true,
     .max_world = kMostSpans,
     .pieces = all_chunks,
     .roundings = once,
     .source = "as two_shot, but written once, where all others read it"},
    {.collective = Collective::kAllReduce,
     .name = "two_shot_zero_copy",
     .build = two_shot_zero_copy_all_reduce,
     .zero_copy = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "as two_shot, from and to the peers' own buffers (mem_alloc)"},
    {.collective = Collective::kAllReduce,
     .name = "ring",
     .build = ring_all_reduce,
     .many_lanes = true,
     .roundings = every_hop,
     .source = kRing},
    {.collective = Collective::kAllReduce,
     .name = "halving_doubling",
     .build = halving_doubling_all_reduce,
     .pieces = half_of_power,
     .roundings = every_level,
     .source = kHalving},
    {.collective = Collective::kAllReduce,
     .name = "tree",
     .build = tree_all_reduce,
     .roundings = every_level,
     .source = kTree},
    {.collective = Collective::kAllGather,
     .name = "direct",
     .build = direct_all_gather,
     .many_lanes = true,
     .max_world = kMostSpans,
     .roundings = never,
     .source = "each rank sends its chunk to all others"},
    {.collective = Collective::kAllGather,
     .name = "direct_zero_copy",
     .build = direct_zero_copy_all_gather,
     .zero_copy = true,
     .max_world = kMostSpans,
     .roundings = never,
     .source = "as direct, into the peers' own buffers (mem_alloc)"},
    {.collective = Collective::kAllGather,
     .name = "log_step",
     .build = log_step_all_gather,
     .pieces = half,
     .roundings = never,
     .source = kBruck},
    {.collective = Collective::kAllGather,
     .name = "ring",
     .build = ring_all_gather,
     .many_lanes = true,
     .roundings = never,
     .source = kRing},
    {.collective = Collective::kReduceScatter,
     .name = "direct",
     .build = direct_reduce_scatter,
     .many_lanes = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "each rank sends each chunk to who reduces it"},
    {.collective = Collective::kReduceScatter,
     .name = "direct_zero_copy",
     .build = direct_zero_copy_reduce_scatter,
     .zero_copy = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "each rank reads its chunk out of all peers' inputs and reduces it (mem_alloc)"},
    {.collective = Collective::kReduceScatter,
     .name = "log_step",
     .build = log_step_reduce_scatter,
     .pieces = half,
     .roundings = every_level,
     .source = kBruck},
    {.collective = Collective::kReduceScatter,
     .name = "ring",
     .build = ring_reduce_scatter,
     .many_lanes = true,
     .roundings = every_hop,
     .source = kRing},
    {.collective = Collective::kAllToAll,
     .name = "direct",
     .build = direct_all_to_all,
     .many_lanes = true,
     .roundings = never,
     .source = "each rank sends each chunk to who gets it, to all at once"},
    {.collective = Collective::kAllToAll,
     .name = "direct_zero_copy",
     .build = direct_zero_copy_all_to_all,
     .zero_copy = true,
     .roundings = never,
     .source = "each rank reads its chunks out of the peers' inputs (mem_alloc)"},
    {.collective = Collective::kAllToAll,
     .name = "pairwise",
     .build = pairwise_all_to_all,
     .many_lanes = true,
     .roundings = never,
     .source = kPairwise},
    {.collective = Collective::kAllToAll,
     .name = "bruck",
     .build = bruck_all_to_all,
     .pieces = half,
     .roundings = never,
     .source = kBruck},
    {.collective = Collective::kAllGatherV,
     .name = "direct",
     .build = direct_all_gather_v,
     .many_lanes = true,
     .max_world = kMostSpans,
     .roundings = never,
     .source = "each rank sends its chunk to all others"},
    {.collective = Collective::kAllGatherV,
     .name = "ring",
     .build = ring_all_gather_v,
     .many_lanes = true,
     .roundings = never,
     .source = kRing},
    {.collective = Collective::kReduceScatterV,
     .name = "direct",
     .build = direct_reduce_scatter_v,
     .many_lanes = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "each rank sends each chunk to who reduces it"},
    {.collective = Collective::kReduceScatterV,
     .name = "ring",
     .build = ring_reduce_scatter_v,
     .many_lanes = true,
     .roundings = every_hop,
     .source = kRing},
    {.collective = Collective::kAllToAllV,
     .name = "direct",
     .build = direct_all_to_all_v,
     .many_lanes = true,
     .roundings = never,
     .source = "each rank sends each chunk to who gets it, to all at once"},
    {.collective = Collective::kAllToAllV,
     .name = "pairwise",
     .build = pairwise_all_to_all_v,
     .many_lanes = true,
     .roundings = never,
     .source = kPairwise},
    {.collective = Collective::kBroadcast,
     .name = "direct",
     .build = direct_broadcast,
     .rooted = true,
     .max_world = kMostSpans,
     .roundings = never,
     .source = "the root sends to all others"},
    {.collective = Collective::kBroadcast,
     .name = "direct_zero_copy",
     .build = direct_zero_copy_broadcast,
     .rooted = true,
     .zero_copy = true,
     .max_world = kMostSpans,
     .roundings = never,
     .source = "each rank reads the root's buffer (mem_alloc)"},
    {.collective = Collective::kBroadcast,
     .name = "chain",
     .build = chain_broadcast,
     .rooted = true,
     .many_lanes = true,
     .roundings = never,
     .source = "from rank to rank, tile by tile"},
    {.collective = Collective::kBroadcast,
     .name = "tree",
     .build = tree_broadcast,
     .rooted = true,
     .roundings = never,
     .source = kTree},
    {.collective = Collective::kReduce,
     .name = "one_shot",
     .build = one_shot_reduce,
     .rooted = true,
     .ordered = true,
     .max_world = kMostSpans,
     .roundings = once,
     .source = "all others send to the root, which reduces all of it"},
    {.collective = Collective::kReduce,
     .name = "chain",
     .build = chain_reduce,
     .rooted = true,
     .many_lanes = true,
     .roundings = every_hop,
     .source = "from rank to rank, tile by tile"},
    {.collective = Collective::kReduce,
     .name = "tree",
     .build = tree_reduce,
     .rooted = true,
     .roundings = every_level,
     .source = kTree},
    {.collective = Collective::kGather,
     .name = "direct",
     .build = direct_gather,
     .rooted = true,
     .many_lanes = true,
     .roundings = never,
     .source = "all others send to the root"},
    {.collective = Collective::kGather,
     .name = "binomial",
     .build = binomial_gather,
     .rooted = true,
     .pieces = binomial_pieces,
     .roundings = never,
     .source = kBinomial},
    {.collective = Collective::kScatter,
     .name = "direct",
     .build = direct_scatter,
     .rooted = true,
     .many_lanes = true,
     .roundings = never,
     .source = "the root sends each chunk to who gets it"},
    {.collective = Collective::kScatter,
     .name = "binomial",
     .build = binomial_scatter,
     .rooted = true,
     .pieces = binomial_pieces,
     .roundings = never,
     .source = kBinomial},
    {.collective = Collective::kExchange,
     .name = "pairwise",
     .build = dense_exchange,
     .roundings = never,
     .source = kPairwise},
    {.collective = Collective::kBarrier,
     .name = "dissemination",
     .build = dissemination_barrier,
     .roundings = never,
     .source = "signals at distances that double; Hensgen, Finkel and Manber, IJPP 1988"},
    {.collective = Collective::kSend,
     .name = "direct",
     .build = send_plan,
     .rooted = true,
     .roundings = never,
     .source = "one pair"},
    {.collective = Collective::kReceive,
     .name = "direct",
     .build = receive_plan,
     .rooted = true,
     .roundings = never,
     .source = "one pair"},
};

}  // namespace

std::span<const Algorithm> algorithms() {
  return kAlgorithms;
}

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms)
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  return nullptr;
}

Plan local_copy(Collective collective, std::string_view algorithm, const PlanArgs& args) {
  PlanBuilder b(collective, algorithm, args.world, args.rank, args.root);
  const CutId own = b.cut(CutKind::kOwn, 1);
  // Uneven chunks may lie anywhere in their buffer.
  const auto chunk_in = [&](bool uneven, CutKind kind) { return uneven ? b.cut(kind, 1) : own; };
  const CutId in = collective == Collective::kAllToAllV
                       ? b.cut(CutKind::kSendRow, 1)
                       : chunk_in(collective == Collective::kReduceScatterV, CutKind::kRanks);
  const CutId out = collective == Collective::kAllToAllV
                        ? b.cut(CutKind::kReceiveColumn, 1)
                        : chunk_in(collective == Collective::kAllGatherV, CutKind::kRanks);
  b.lane(0, 1, [&] {
    b.move(b.chunk(collective == Collective::kAllToAllV ? in : own, constant(0)), {b.input(in, constant(0))},
           {b.output(out, constant(0))}, reduces(collective) ? Finish::kYes : Finish::kNo);
  });
  return b.finish();
}

}  // namespace hocket
