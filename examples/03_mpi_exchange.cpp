// SPDX-License-Identifier: Apache-2.0
// An MPI program gives hocket its all-gather, and goes on to use both: mpirun -np 4 build/dev/examples/03_mpi_exchange
// Prints "rank 0 of 4: hocket and MPI agree on 10" and the like, once for each rank.
#include <mpi.h>
#include <hocket/hocket.hpp>

#include <iostream>
#include <span>

hocket::Status exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  const int bytes = static_cast<int>(mine.size());
  if (MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD) != MPI_SUCCESS)
    return {hocket::Code::kSystem, "MPI_Allgather failed"};
  return {};
}

int run() {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1)
    std::cerr
        << "MPI sees one process alone. mpirun -np 4 PROGRAM starts four; `hocket run` starts no ranks of MPI, but "
           "those of Communicator::from_environment(), as in 01_all_reduce\n";
  auto communicator = hocket::Communicator::create(rank, size, exchange);
  if (!communicator.ok()) {
    std::cerr << communicator.status().to_string() << "\n";
    return 1;
  }
  double ours = rank + 1, theirs = ours;
  const hocket::Status status = communicator->all_reduce(std::span(&ours, 1));
  if (!status.ok()) {
    std::cerr << status.to_string() << "\n";
    return 1;
  }
  MPI_Allreduce(MPI_IN_PLACE, &theirs, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  if (ours != theirs) return 1;
  std::cout << "rank " + std::to_string(rank) + " of " + std::to_string(size) + ": hocket and MPI agree on " +
                   std::to_string(static_cast<int>(ours)) + "\n";
  return 0;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = run();  // the communicator ends before MPI does
  MPI_Finalize();
  return code;
}
