// SPDX-License-Identifier: Apache-2.0
// mpi_perf.cpp: the collectives of an MPI, for bench/compare, which builds and starts it.
#include <mpi.h>

#include "harness.hpp"

namespace {

using namespace hocket::peers;

class Mpi : public Library {
 public:
  void begin(const Call& call) override {
    if (call.count > INT_MAX) give_up("a count beyond MPI's int");
    switch (call.type) {
      case Type::kFloat64: type_ = MPI_DOUBLE; break;
      case Type::kInt32: type_ = MPI_INT32_T; break;
      case Type::kInt64: type_ = MPI_INT64_T; break;
      default: type_ = MPI_FLOAT; break;
    }
  }
  void call(const Call& c) override {
    const int count = static_cast<int>(c.count);
    switch (c.what) {
      case What::kAllReduce: MPI_Allreduce(c.input, c.output, count, type_, MPI_SUM, MPI_COMM_WORLD); break;
      case What::kAllGather: MPI_Allgather(c.input, count, type_, c.output, count, type_, MPI_COMM_WORLD); break;
      case What::kReduceScatter:
        MPI_Reduce_scatter_block(c.input, c.output, count, type_, MPI_SUM, MPI_COMM_WORLD);
        break;
      case What::kAllToAll: MPI_Alltoall(c.input, count, type_, c.output, count, type_, MPI_COMM_WORLD); break;
      case What::kBroadcast: MPI_Bcast(c.output, count, type_, 0, MPI_COMM_WORLD); break;
    }
  }
  void progress() override {
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
  }

 private:
  MPI_Datatype type_ = MPI_FLOAT;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = parse_options(argc, argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Meeting meeting(options.segment, rank, ranks);
  place(rank, ranks, true);
  Mpi library;
  Server(library, meeting, options).run();
  MPI_Finalize();
}
