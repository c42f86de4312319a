// SPDX-License-Identifier: Apache-2.0
// perf/perf.hpp: `hocket perf`.
#pragma once

namespace hocket::perf {

/// argv[0] is skipped, argv[1] is the collective, flags follow. `version` is for the table's head.
/// Returns the exit status: 0, 1 if something went wrong or was computed wrong, 2 if the flags are.
int perf_main(int argc, char** argv, const char* version);

}  // namespace hocket::perf
