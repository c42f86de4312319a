// SPDX-License-Identifier: Apache-2.0
// Tests of src/sim/published and src/sim/calibration: the model against what others measured with NCCL, and against
// recorded rows of hocket perf. Nothing is timed here.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "sim/calibration.hpp"
#include "sim/published.hpp"

namespace hocket::sim {
namespace {

TEST(Published, EachMachineOfOneHostIsWithin15PercentByConstantsOfTheOthersOrSaysWhyNot) {
  auto predictions = predict_published();
  ASSERT_TRUE(predictions.ok()) << predictions.status().text();
  ASSERT_EQ(predictions->size(), published_rows().size());
  for (const Prediction& p : *predictions) {
    EXPECT_GT(p.gbps, 0);
    EXPECT_FALSE(p.row->source.empty());
    EXPECT_TRUE(std::abs(p.error) <= 0.15 || !p.row->note.empty()) << p.row->machine;
    // The machines that the library is for.
    for (const std::string_view name : {"8xA100", "8xH100", "8xH200", "8xB200"}) {
      EXPECT_TRUE(p.row->machine != name || p.row->hosts > 1 || std::abs(p.error) <= 0.15) << name;
    }
  }
  EXPECT_EQ(published_text(*predictions).find("a model of NCCL's efficiency (no measurement of hocket)"), 0u);
}

TEST(Published, MachinesAreOneSwitchWithAnNicForEachGpu) {
  for (const MachineSpec& spec : known_machines()) {
    const topo::Graph graph = machine_of(spec);
    EXPECT_TRUE(graph.check().ok()) << graph.check().text();
    EXPECT_EQ(graph.count(topo::NodeKind::kGpu), spec.gpus);
    EXPECT_EQ(graph.count(topo::NodeKind::kNic), spec.nic_bytes > 0 ? spec.gpus : 0);
  }
  EXPECT_EQ(find_machine("8xA1000"), nullptr);
}

std::string recorded() {
  std::ifstream stream(HOCKET_SOURCE_DIR "/tests/unit/data/perf-2-ranks.csv");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

TEST(Calibration, PredictsRecordedRowsOfPerfWithinAWideBound) {
  auto rows = read_perf_csv(recorded(), "perf-2-ranks.csv");
  ASSERT_TRUE(rows.ok()) << rows.status().text();
  auto calibration = calibrate(*rows, 32 << 20);
  ASSERT_TRUE(calibration.ok()) << calibration.status().text();
  EXPECT_LT(calibration->median_error, 0.4);
  EXPECT_LT(calibration->worst_error, 2.0);
  int predicted = 0;
  for (const Checked& row : calibration->rows) predicted += !row.fitted;
  EXPECT_GE(predicted, 15);
}

TEST(Calibration, FindsTheConstantsOfItsOwnModel) {
  // Rows made by the model itself: what is left over is the search's error alone.
  auto rows = read_perf_csv(recorded(), "perf-2-ranks.csv");
  ASSERT_TRUE(rows.ok());
  auto first = calibrate(*rows, 32 << 20);
  ASSERT_TRUE(first.ok());
  std::vector<Measured> made;
  for (const Checked& row : first->rows) {
    made.push_back(row.row);
    made.back().seconds = row.predicted;
  }
  auto second = calibrate(made, 32 << 20);
  ASSERT_TRUE(second.ok());
  EXPECT_LT(second->worst_error, 0.1);
}

TEST(Calibration, DamagedRowsAreNamed) {
  const std::string header = "collective,ranks,transport,algo,bytes,place,median_us\n";
  EXPECT_NE(read_perf_csv("a,b\n1,2\n", "x.csv").status().text().find("x.csv:1"), std::string_view::npos);
  EXPECT_NE(read_perf_csv(header + "all_reduce,2,shm\n", "x.csv").status().text().find("x.csv:2"),
            std::string_view::npos);
  for (const char* row : {"all_reduce,-2,shm,ring,8,out,1", "all_reduce,2,shm,ring,8x,out,1",
                          "all_reduce,2,shm,ring,8,out,nan", "all_reduce,2,shm,ring,8,out,0",
                          "all_reduce,99999,shm,ring,8,out,1", "all_reduce,2,shm,ring,99999999999999999,out,1"})
    EXPECT_FALSE(read_perf_csv(header + row + "\n", "x.csv").ok()) << row;
  EXPECT_FALSE(read_perf_csv("", "x.csv").ok());
  auto one = read_perf_csv(header + "all_reduce,2,shm,ring,8,out,1\n", "x.csv");
  ASSERT_TRUE(one.ok());
  EXPECT_FALSE(calibrate(*one, 1e6).ok());
}

}  // namespace
}  // namespace hocket::sim
