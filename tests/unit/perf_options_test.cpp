// SPDX-License-Identifier: Apache-2.0
// The flags of hocket perf mean what they mean in nccl-tests, and none is ignored.
#include <gtest/gtest.h>

#include "bench/perf/options.hpp"

namespace hocket::perf {
namespace {

Parsed parse(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "perf");
  return parse_options(static_cast<int>(flags.size()), flags.data());
}

std::vector<std::size_t> sizes(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "all_reduce");
  const Parsed parsed = parse(flags);
  return parsed.options ? sizes_of(*parsed.options) : std::vector<std::size_t>();
}

// What is printed on stderr while a refused command line is read.
std::string refusal(std::vector<const char*> flags) {
  flags.insert(flags.begin(), "all_reduce");
  ::testing::internal::CaptureStderr();
  const Parsed parsed = parse(flags);
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(parsed.options.has_value());
  EXPECT_EQ(parsed.exit_code, 2);
  return text;
}

using Sizes = std::vector<std::size_t>;

TEST(PerfOptions, DefaultsAreThoseOfNcclTests) {
  const Options o = *parse({"all_reduce"}).options;
  EXPECT_EQ(o.collective, &kAllReducePerf);
  EXPECT_EQ(sizes_of(o), Sizes{32 << 20});
  EXPECT_EQ(o.types, std::vector{DataType::kFloat32});
  EXPECT_EQ(o.ops, std::vector{ReduceOp::kSum});
  EXPECT_EQ(o.checks, 1);
  EXPECT_EQ(o.root, 0);
  EXPECT_FALSE(o.iterations.has_value());
}

TEST(PerfOptions, ShortAndLongFlagsAreTheSame) {
  const Options a =
      *parse({"reduce", "-b",  "8",  "-e",   "1K", "-f", "2",  "-n", "7",  "-w", "3",  "-m", "4",  "-c", "0",
              "-o",     "max", "-d", "half", "-r", "2",  "-z", "0",  "-a", "1",  "-T", "5",  "-t", "2"})
           .options;
  const Options b = *parse({"reduce", "--minbytes",     "8",    "--maxbytes",  "1K", "--stepfactor", "2", "--iters",
                            "7",      "--warmup_iters", "3",    "--agg_iters", "4",  "--check",      "0", "--op",
                            "max",    "--datatype",     "half", "--root",      "2",  "--blocking",   "0", "--average",
                            "1",      "--timeout",      "5",    "--nthreads",  "2"})
                         .options;
  for (const Options& o : {a, b}) {
    EXPECT_EQ(o.min_bytes, 8u);
    EXPECT_EQ(o.max_bytes, 1024u);
    EXPECT_EQ(o.step_factor, 2u);
    EXPECT_EQ(o.iterations, 7);
    EXPECT_EQ(o.warmups, 3);
    EXPECT_EQ(o.calls, 4);
    EXPECT_EQ(o.checks, 0);
    EXPECT_EQ(o.ops, std::vector{ReduceOp::kMax});
    EXPECT_EQ(o.types, std::vector{DataType::kFloat16});
    EXPECT_EQ(o.root, 2);
    EXPECT_FALSE(o.blocking);
    EXPECT_EQ(o.over_ranks, OverRanks::kAverage);
    EXPECT_EQ(o.timeout_s, 5);
    EXPECT_EQ(o.threads, 2);
  }
}

TEST(PerfOptions, SizesGrowByFactorOrByStep) {
  EXPECT_EQ(sizes({"-b", "8", "-e", "100", "-f", "2"}), (Sizes{8, 16, 32, 64}));
  EXPECT_EQ(sizes({"-b", "8", "-e", "20", "-i", "4"}), (Sizes{8, 12, 16, 20}));
  EXPECT_EQ(sizes({"-b", "3", "-e", "30", "-f", "3"}), (Sizes{3, 9, 27})) << "not rounded";
  EXPECT_EQ(sizes({"-b", "0", "-e", "30", "-f", "3"}), Sizes{0}) << "0 can't grow";
  EXPECT_EQ(sizes({"-b", "5", "-e", "30", "-i", "0"}), Sizes{5});
  EXPECT_EQ(sizes({"-b", "1M", "-e", "3M"}), (Sizes{1 << 20, 2 << 20, 3 << 20}));
  EXPECT_EQ(sizes({"-b", "1G"}), Sizes{1 << 30});
  EXPECT_EQ(sizes({"-e", "1K"}), Sizes{1024});
}

TEST(PerfOptions, SizesHaveSuffixes) {
  EXPECT_EQ(parse_bytes("8"), 8u);
  EXPECT_EQ(parse_bytes("4k"), 4096u);
  EXPECT_EQ(parse_bytes("0.5M"), 512u << 10);
  EXPECT_EQ(parse_bytes("2GiB"), std::size_t{2} << 30);
  for (const char* bad : {"", "x", "-1", "1T", "1KK", "0x10", "nan", "inf", "1e40", "K", "1 K"}) {
    EXPECT_FALSE(parse_bytes(bad).has_value()) << bad;
  }
}

TEST(PerfOptions, NamesOfBothWorldsAreKnown) {
  for (const char* name : {"all_reduce", "allreduce", "AllReduce"})
    EXPECT_EQ(find_perf_collective(name), &kAllReducePerf);
  for (const char* name : {"all_to_all", "alltoall"}) EXPECT_EQ(find_perf_collective(name), &kAllToAllPerf);
  EXPECT_EQ(find_perf_collective("sendrecv"), &kSendReceivePerf);
  EXPECT_EQ(find_perf_collective("all"), nullptr);
  EXPECT_EQ(parse_type("float"), DataType::kFloat32);
  EXPECT_EQ(parse_type("bf16"), DataType::kBfloat16);
  EXPECT_EQ(parse_type("HALF"), DataType::kFloat16);
  // nccl-tests' names.
  for (const char* name : {"int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16",
                           "fp8_e4m3", "fp8_e5m2", "f8e4m3", "f8e5m2"})
    EXPECT_TRUE(parse_type(name).has_value()) << name;
  EXPECT_EQ(parse_type("fp8_e5m2"), DataType::kFloat8E5M2);
  EXPECT_FALSE(parse_type("int7").has_value());
  EXPECT_EQ(parse_op("mulsum"), ReduceOp::kPremultipliedSum);
  EXPECT_FALSE(parse_op("user").has_value());
  EXPECT_EQ(parse_op("prod"), ReduceOp::kProduct);
  EXPECT_EQ(parse_op("average"), ReduceOp::kAverage);
  EXPECT_EQ(parse({"all_reduce", "-o", "all", "-d", "all"}).options->ops.size(), 6u);
  EXPECT_EQ(parse({"all_reduce", "-o", "all", "-d", "all"}).options->types.size(), 12u);
  EXPECT_EQ(parse({"all_gather", "-o", "all"}).options->ops.size(), 1u) << "nothing is reduced";
}

TEST(PerfOptions, WhatIsNotOfferedIsRefusedWithTheReason) {
  EXPECT_NE(refusal({"-g", "2"}).find("--ranks"), std::string::npos);
  EXPECT_NE(refusal({"-p", "0"}).find("not offered"), std::string::npos);
  EXPECT_NE(refusal({"-G", "1"}).find("graph"), std::string::npos);
  EXPECT_NE(refusal({"-R", "1"}).find("not offered"), std::string::npos);
  EXPECT_NE(refusal({"-F", "x.csv"}).find("--csv"), std::string::npos);
  for (const char* flag : {"-y", "-C", "-N", "-M", "-S"})
    EXPECT_NE(refusal({flag, "7"}).find("not offered"), std::string::npos);
  refusal({"--unheard-of"});
  // What asks for what happens anyway is fine.
  EXPECT_TRUE(parse({"all_reduce", "-g", "1", "-p", "1", "-G", "0", "-y", "0", "-R", "2"}).options->symmetric);
}

TEST(PerfOptions, NonsenseIsRefused) {
  EXPECT_NE(refusal({"-b", "8Q"}).find("no size"), std::string::npos);
  refusal({"-b", "2M", "-e", "1M"});
  refusal({"-n", "0"});
  refusal({"-r", "-2"});
  refusal({"-d", "int7"});
  refusal({"-o", "user"});
  refusal({"-z", "2"});
  refusal({"--threads"});
  refusal({"--ranks", "5", "-t", "2"});
  EXPECT_NE(parse({"all_redcue"}).exit_code, 0);
}

TEST(PerfOptions, ThreadsMeansAllRanksInOneProcess) {
  EXPECT_EQ(parse({"barrier", "--ranks", "4", "--threads"}).options->threads, 4);
  EXPECT_EQ(parse({"barrier", "--ranks", "4", "-t", "2"}).options->threads, 2);
}

}  // namespace
}  // namespace hocket::perf
