// SPDX-License-Identifier: Apache-2.0
// reproducible_program.cpp: a rank that prints the hash of reductions, for runs on several hosts.
#include "support/reproducible.hpp"

#include <cstdio>

int main() {
  const auto fail = [](const hocket::Status& status) {
    std::fprintf(stderr, "reproducible_program: %s\n", status.to_string().c_str());
    return 1;
  };
  auto comm = hocket::Communicator::from_environment();
  if (!comm.ok()) return fail(comm.status());
  std::uint64_t hash = 0;
  for (int run = 0; run < 20; ++run) {
    const auto one = hocket::test::reproducible_run(*comm, run % comm->size(), [] {});
    if (!one.ok()) return fail(one.status());
    if (run > 0 && *one != hash) return fail({hocket::Code::kInternal, "two runs gave two hashes"});
    hash = *one;
  }
  if (const hocket::Status status = comm->finalize(); !status.ok()) return fail(status);
  std::printf("hash %016llx, %d ranks, %s\n", static_cast<unsigned long long>(hash), comm->size(),
              hash == hocket::test::reproducible_hash(comm->size()) ? "in rank order" : "in another order");
  return 0;
}
