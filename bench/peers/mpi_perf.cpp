// SPDX-License-Identifier: Apache-2.0
// mpi_perf.cpp: the collectives of an MPI, timed as `hocket perf` times its own: batches of back-to-back calls of about
// 200 us, the slowest rank's time, the median over batches; results checked. Prints CSV: collective, ranks, bytes,
// median_us, busbw, wrong. Built and started by bench/peers/compare.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

int rank, size;

double bus_factor(const std::string& c) {
  const double n = size;
  return c == "all_reduce" ? 2 * (n - 1) / n : c == "broadcast" ? 1 : (n - 1) / n;
}

void call(const std::string& c, const float* in, float* out, int count) {
  if (c == "all_reduce") MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (c == "all_gather") MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
  if (c == "reduce_scatter") MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (c == "all_to_all") MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
  if (c == "broadcast") MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

double batch(const std::string& c, const float* in, float* out, int count, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < calls; ++i) call(c, in, out, count);
  const double mine = (MPI_Wtime() - start) / calls;
  double slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest * 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) == 0 && size <= CPU_COUNT(&all)) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(rank, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  std::vector<std::size_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  const std::string c = argc > 1 ? argv[1] : "all_reduce";
  for (const std::size_t bytes : sizes) {
    const bool chunks = c != "all_reduce" && c != "broadcast";
    const std::size_t count = std::max<std::size_t>(1, bytes / 4 / (chunks ? static_cast<std::size_t>(size) : 1));
    const std::size_t whole = count * static_cast<std::size_t>(chunks ? size : 1);
    std::vector<float> in(whole, static_cast<float>(rank + 1)),
        out(whole, c == "broadcast" ? (rank == 0 ? 7.0f : 0.0f) : -1.0f);
    call(c, in.data(), out.data(), static_cast<int>(count));
    const float sum = static_cast<float>(size) * static_cast<float>(size + 1) / 2;
    const float expected = c == "all_reduce" || c == "reduce_scatter" ? sum : c == "broadcast" ? 7 : 1;
    long wrong = 0, all_wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += out[i] != expected;
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    double estimate = batch(c, in.data(), out.data(), static_cast<int>(count), 1);
    int calls = std::clamp(static_cast<int>(200 / std::max(estimate, 0.2)), 1, 400);
    estimate = batch(c, in.data(), out.data(), static_cast<int>(count), calls);
    calls = std::clamp(static_cast<int>(200 / std::max(estimate, 0.2)), 1, 400);
    const int batches = std::clamp(static_cast<int>(50e3 / (estimate * calls)), 5, 200);
    std::vector<double> times;
    for (int b = 0; b < batches; ++b) times.push_back(batch(c, in.data(), out.data(), static_cast<int>(count), calls));
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    if (rank == 0)
      std::printf("%s,%d,%zu,%.4f,%.6g,%ld\n", c.c_str(), size, whole * 4, median,
                  static_cast<double>(whole) * 4 / median * 1e-3 * bus_factor(c), all_wrong);
  }
  MPI_Finalize();
}
