// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hocket::matrix {

/// Calls with more than 2^32 bytes between two ranks, by local and by shm, in little memory. Prints a line for each;
/// returns 0 if all are right. `only_short`: those that take seconds.
int run_huge(bool only_short);

}  // namespace hocket::matrix
