// SPDX-License-Identifier: Apache-2.0
// matrix.cpp: hocket_matrix: every collective over every transport in worlds of 1 to 9 ranks, held to be exact.
//
//   hocket_matrix                          all cases (minutes)
//   hocket_matrix --seed 7 --sample 20000  so many of them, drawn at random
//   hocket_matrix --huge                   counts beyond 2^32 bytes (huge.cpp)
//
// Settings come from the environment as always: HOCKET_LANES=3 hocket_matrix --sample 20000.
//
// Prints how many cases of each collective ran over each transport. The first wrong one ends it with status 1, and is
// printed with the command that runs it again. Next stop: cases.hpp.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <random>

#include "base/format.hpp"
#include "base/os/clock.hpp"
#include "base/status.hpp"
#include "matrix/cases.hpp"
#include "matrix/huge.hpp"
#include "matrix/world.hpp"

namespace hocket::matrix {
namespace {

struct Options {
  std::uint64_t seed = 1;
  std::uint64_t sample = 0;  // 0: all
  std::optional<std::string> wire, kind;
  int least_ranks = 1, most_ranks = 9;
  std::optional<std::uint64_t> only;
  bool huge = false, huge_short = false;
};

constexpr const char* kHelp = R"(usage: hocket_matrix [OPTIONS]
  --seed S          of the contents of all buffers, and of what is drawn (1)
  --sample N        only N cases, drawn at random and spread over all worlds
  --transport NAME  only local, shm, tcp or two-sided
  --ranks N|A-B     only worlds of these sizes (1-9)
  --collective NAME only this one
  --case I          only case I of each world, as a failure prints it
  --huge            instead: counts beyond 2^32 bytes, in sparse memory
  --huge-short      the same, only what takes seconds
)";

bool number(const char* text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
  return error == std::errc() && *end == '\0';
}

std::optional<Options> parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--huge" || flag == "--huge-short") {
      o.huge = true;
      o.huge_short = flag == "--huge-short";
      continue;
    }
    const char* const value = ++i < argc ? argv[i] : "";
    std::uint64_t n = 0;
    if (flag == "--seed" && number(value, o.seed)) continue;
    if (flag == "--sample" && number(value, o.sample) && o.sample > 0) continue;
    if (flag == "--case" && number(value, n)) {
      o.only = n;
      continue;
    }
    if (flag == "--transport" && *value != '\0') {
      for (const Wire wire : kWires)
        if (name_of(wire) == value) o.wire = value;
      if (o.wire) continue;
    }
    if (flag == "--collective" && *value != '\0') {
      for (int k = 0; k < kKinds; ++k)
        if (name_of(static_cast<Kind>(k)) == value) o.kind = value;
      if (o.kind) continue;
    }
    if (flag == "--ranks") {
      const int read = std::sscanf(value, "%d-%d", &o.least_ranks, &o.most_ranks);
      if (read == 1) o.most_ranks = o.least_ranks;
      if (read >= 1 && o.least_ranks >= 1 && o.least_ranks <= o.most_ranks && o.most_ranks <= 64) continue;
    }
    print(stderr, "{}hocket_matrix: {} {} is not understood\n", kHelp, flag, value);
    return std::nullopt;
  }
  return o;
}

using Counted = std::map<std::pair<int, Wire>, std::uint64_t>;

// The cases of one world, each with its number, in the order in which all ranks take them.
std::vector<std::pair<std::size_t, Case>> chosen(const Options& o, int ranks, Wire wire) {
  const std::vector<Case> all = all_cases(ranks, o.seed);
  std::vector<std::pair<std::size_t, Case>> cases;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (o.only ? *o.only == i : !o.kind || *o.kind == name_of(all[i].kind)) cases.emplace_back(i, all[i]);
  }
  if (o.sample == 0 || cases.empty()) return cases;
  const std::uint64_t wires = o.wire ? 1 : std::size(kWires);
  const std::uint64_t worlds = wires * static_cast<std::uint64_t>(o.most_ranks - o.least_ranks + 1);
  std::mt19937_64 random(mixed(o.seed) ^ (static_cast<std::uint64_t>(ranks) << 8) ^ static_cast<std::uint64_t>(wire));
  // Each collective and large counts as often as in the whole.
  std::shuffle(cases.begin(), cases.end(), random);
  cases.resize(std::min<std::size_t>(cases.size(), (o.sample + worlds - 1) / worlds));
  return cases;
}

Status run_world(const Options& o, int ranks, Wire wire, Counted& counted) {
  const auto cases = chosen(o, ranks, wire);
  WorldOptions options;
  options.wire = wire;
  options.ranks = ranks;
  options.seed = mixed(o.seed) + static_cast<std::uint64_t>(ranks);
  HOCKET_ASSIGN(options.settings, Settings::from_environment());
  options.settings.timeout = std::chrono::seconds(120);  // so that a deadlock has an end, and names who waits for whom
  Arrivals arrivals;
  World world(options);
  return world.run([&](Communicator& comm) -> Status {
    CaseRunner runner(comm, arrivals);
    for (const auto& [index, one] : cases) {
      if (const Status status = runner.run(one); !status.ok())
        return Status(status.code(),
                      format("{}\n  in {}\n  again: hocket_matrix --seed {} --transport {} --ranks {} --case {}",
                             status.text(), to_string(one), o.seed, name_of(wire), ranks, index));
      if (comm.rank() == 0) ++counted[{static_cast<int>(one.kind), wire}];
    }
    return comm.barrier();  // nobody leaves while others still check
  });
}

int run(const Options& o) {
  Counted counted;
  const std::int64_t start = os::now_ns();
  const auto seconds = [&] { return static_cast<double>(os::now_ns() - start) * 1e-9; };
  std::uint64_t total = 0;
  for (const Wire wire : kWires) {
    if (o.wire && *o.wire != name_of(wire)) continue;
    for (int ranks = o.least_ranks; ranks <= o.most_ranks; ++ranks) {
      const Status status = run_world(o, ranks, wire, counted);
      if (!status.ok()) {
        print(stderr, "hocket_matrix: WRONG, seed {}, {} ranks over {}: {}\n", o.seed, ranks, name_of(wire),
              status.to_string());
        return 1;
      }
    }
    for (int k = 0; k < kKinds; ++k) {
      const std::uint64_t cases = counted[{k, wire}];
      if (cases > 0) print(stdout, "{:<17} {:<10} {:>9} cases\n", name_of(static_cast<Kind>(k)), name_of(wire), cases);
      total += cases;
    }
    print(stdout, "{:<28} {:>9} cases so far, {:.0f} s\n", "", total, seconds());
    std::fflush(stdout);
  }
  print(stdout, "hocket_matrix: {} cases are right, {} to {} ranks, seed {}, {:.1f} s\n", total, o.least_ranks,
        o.most_ranks, o.seed, seconds());
  return total > 0 ? 0 : 1;
}

}  // namespace
}  // namespace hocket::matrix

int main(int argc, char** argv) {
  if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
    std::fputs(hocket::matrix::kHelp, stdout);
    return 0;
  }
  const auto options = hocket::matrix::parse(argc, argv);
  if (!options) return 2;
  return options->huge ? hocket::matrix::run_huge(options->huge_short) : hocket::matrix::run(*options);
}
