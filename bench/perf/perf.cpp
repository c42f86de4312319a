// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/perf.hpp"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/report.hpp"
#include "bench/perf/runner.hpp"
#include "bench/perf/thread_exchange.hpp"
#include "core/launch.hpp"
#include "tools/run.hpp"

namespace hocket::perf {
namespace {

int complain(std::string_view text) {
  print(stderr, "hocket perf: {}\n", text);
  return 2;
}

// Starts this command again, once a process; each then finds that it was started.
int run_as_processes(const Options& options, int argc, char** argv) {
  char self[4096];
  const ssize_t n = ::readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0) return complain(format("/proc/self/exe: {}", std::strerror(errno)));
  self[n] = '\0';
  run::Options start;
  start.ranks = *options.ranks / options.threads;
  start.name = "hocket perf";
  start.executable = self;
  start.arguments = {"hocket", "perf"};
  start.arguments.insert(start.arguments.end(), argv + 1, argv + argc);
  const Result<int> status = run::run_ranks(start);
  return status.ok() ? *status : complain(status.status().text());
}

// All ranks of this process, of `processes` in all.
int run_ranks_here(const Options& options, int process, int processes, const Exchange& between, const char* version) {
  const int threads = options.threads, size = processes * threads;
  std::unique_ptr<Report> report;
  if (process == 0) {
    auto opened = Report::open(options, version);
    // The others hear of it from the launcher.
    if (!opened.ok()) return complain(opened.status().text());
    report = std::move(*opened);
  }
  ThreadExchange exchange(threads, processes, between);
  std::vector<Result<std::size_t>> results(static_cast<std::size_t>(threads), std::size_t{0});
  const auto run = [&](int thread) {
    const Rank rank = process * threads + thread;
    const Participant participant{rank, size, exchange.of(thread), rank == 0 ? report.get() : nullptr};
    Result<std::size_t>& result = results[static_cast<std::size_t>(thread)];
    result = run_rank(options, participant);
    if (!result.ok()) exchange.fail(result.status());
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
  std::string_view said;
  for (int thread = 0; thread < threads; ++thread) {
    const Result<std::size_t>& result = results[static_cast<std::size_t>(thread)];
    // Once is enough where threads ended by the same error.
    if (result.ok() || result.status().text() == said) continue;
    said = result.status().text();
    print(stderr, "hocket perf: rank {}: {}\n", process * threads + thread, result.status().to_string());
  }
  if (!said.empty()) return 1;
  // Rank 0 knows the sum of all; the others need not fail as well.
  if (!report) return 0;
  if (const Status written = report->close(); !written.ok()) {
    print(stderr, "hocket perf: {}\n", written.to_string());
    return 1;
  }
  return report->wrong() > 0 ? 1 : 0;
}

}  // namespace

int perf_main(int argc, char** argv, const char* version) {
  const Parsed parsed = parse_options(argc, argv);
  if (!parsed.options) return parsed.exit_code;
  const Options& options = *parsed.options;
  // No time limit: while one rank checks a large buffer, others wait for it.
  // Its warnings are left to rank 0, which reads them again.
  auto settings = parse_environment(environ, false);
  if (!settings.ok()) return complain(settings.status().text());
  settings->start_timeout = std::chrono::nanoseconds(0);
  const auto launched = launched_from_environment(*settings);
  if (!launched.ok()) return complain(launched.status().text());
  if (*launched) {
    const LaunchedRank& me = **launched;
    if (options.ranks && *options.ranks != me.size * options.threads) {
      return complain(format("--ranks {}, but the launcher started {} process{} of {} rank{}: leave --ranks away",
                             *options.ranks, me.size, me.size == 1 ? "" : "es", options.threads,
                             options.threads == 1 ? "" : "s"));
    }
    return run_ranks_here(options, me.rank, me.size, me.exchange, version);
  }
  if (options.ranks && *options.ranks > options.threads) return run_as_processes(options, argc, argv);
  return run_ranks_here(options, 0, 1, nullptr, version);
}

}  // namespace hocket::perf
