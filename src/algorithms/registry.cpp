// SPDX-License-Identifier: Apache-2.0
#include "algorithms/registry.hpp"

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

constexpr std::string_view kRing = "Patarasuk and Yuan, JPDC 2009";
constexpr std::string_view kTree = "Sanders, Speck and Traff, Parallel Computing 2009";
constexpr std::string_view kDirect = "one exchange between all pairs";

//  collective, name, build, rooted, many_lanes, zero_copy, boards, max_world, roundings, source
constexpr Algorithm kAlgorithms[] = {
    {Collective::kAllReduce, "one_shot", one_shot_all_reduce, false, true, false, false, 64, once, kDirect},
    {Collective::kAllReduce, "one_shot_board", one_shot_board_all_reduce, false, false, false, true, 64, once, kDirect},
    {Collective::kAllReduce, "two_shot", two_shot_all_reduce, false, true, false, false, 64, once, kDirect},
    {Collective::kAllReduce, "two_shot_board", two_shot_board_all_reduce, false, false, false, true, 64, once, kDirect},
    {Collective::kAllReduce, "two_shot_zero_copy", two_shot_zero_copy_all_reduce, false, false, true, false, 64, once,
     kDirect},
    {Collective::kAllReduce, "ring", ring_all_reduce, false, true, false, false, 0, every_hop, kRing},
    {Collective::kAllReduce, "tree", tree_all_reduce, false, false, false, false, 0, every_level, kTree},
    {Collective::kAllGather, "direct", direct_all_gather, false, true, false, false, 64, never, kDirect},
    {Collective::kAllGather, "direct_zero_copy", direct_zero_copy_all_gather, false, false, true, false, 64, never,
     kDirect},
    {Collective::kAllGather, "ring", ring_all_gather, false, true, false, false, 0, never, kRing},
    {Collective::kReduceScatter, "direct", direct_reduce_scatter, false, true, false, false, 64, once, kDirect},
    {Collective::kReduceScatter, "ring", ring_reduce_scatter, false, true, false, false, 0, every_hop, kRing},
    {Collective::kAllToAll, "direct", direct_all_to_all, false, true, false, false, 0, never, kDirect},
    {Collective::kAllToAll, "pairwise", pairwise_all_to_all, false, true, false, false, 0, never,
     "Thakur, Rabenseifner and Gropp, IJHPCA 2005"},
    {Collective::kBroadcast, "direct", direct_broadcast, true, false, false, false, 64, never, kDirect},
    {Collective::kBroadcast, "chain", chain_broadcast, true, true, false, false, 0, never, "pipelined chain"},
    {Collective::kBroadcast, "tree", tree_broadcast, true, false, false, false, 0, never, kTree},
    {Collective::kReduce, "one_shot", one_shot_reduce, true, false, false, false, 64, once, kDirect},
    {Collective::kReduce, "tree", tree_reduce, true, false, false, false, 0, every_level, kTree},
    {Collective::kBarrier, "dissemination", dissemination_barrier, false, false, false, false, 0, never,
     "Hensgen, Finkel and Manber, IJPP 1988"},
    {Collective::kSend, "direct", send_plan, true, false, false, false, 0, never, "one pair"},
    {Collective::kReceive, "direct", receive_plan, true, false, false, false, 0, never, "one pair"},
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
  const bool reduces = collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
                       collective == Collective::kReduce;
  b.lane(0, 1, [&] {
    b.move(b.chunk(own, constant(0)), {b.input(own, constant(0))}, {b.output(own, constant(0))},
           reduces ? Finish::kYes : Finish::kNo);
  });
  return b.finish();
}

}  // namespace hocket
