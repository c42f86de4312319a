// SPDX-License-Identifier: Apache-2.0
// The simulator's hierarchical all-reduce is proven by the checker, as the library's own algorithms are.
#include <gtest/gtest.h>

#include "algorithms/bind.hpp"
#include "checker/checker.hpp"
#include "sim/hierarchical.hpp"

namespace hocket {
namespace {

TEST(HierarchicalAllReduce, IsProvenForHostsOfEqualSize) {
  Checker checker;
  for (const int per_host : {1, 2, 3, 4, 8})
    for (const int hosts : {1, 2, 3, 4, 5, 8}) {
      const int n = per_host * hosts;
      if (n < 2 || n > 24) continue;
      std::vector<Plan> plans;
      for (int rank = 0; rank < n; ++rank) plans.push_back(sim::hierarchical_all_reduce_plan(per_host, hosts, rank));
      auto world = PlanWorld::of(std::move(plans));
      ASSERT_TRUE(world.ok()) << world.status().text();
      for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, static_cast<std::uint64_t>(n) + 3,
                                        static_cast<std::uint64_t>(5 * n) + 1})
        for (const bool in_place : {false, true}) {
          const CheckCall call{.plans = &*world, .count = count, .tile = 2, .in_place = in_place};
          const CheckCall calls[] = {call, call};
          auto report = checker.check(calls, {});
          ASSERT_TRUE(report.ok()) << per_host << " x " << hosts << ", count " << count << ": "
                                   << report.status().text();
        }
    }
}

}  // namespace
}  // namespace hocket
