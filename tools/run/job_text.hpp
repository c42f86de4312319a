// SPDX-License-Identifier: Apache-2.0
// tools/run/job_text.hpp: the text by which `hocket run --hosts` tells a host's agent its part of the job.
//
//   hocket job 1          then a line for each item: its name, a space, its value with % and line ends as %25 and %0a
//   ranks 4
//   argument ./train
//   end                   what follows is not ours
//
// Next stop: hosts.cpp, both ends of it.
#pragma once

#include <string>

#include "hocket/status.hpp"
#include "tools/run.hpp"

namespace hocket::run {

/// The text for `job`, with this process's directory.
std::string job_text(const Options& job);

/// Reads one, changes into its directory, and returns what it asks for; all is checked. Errors: kInvalidArgument,
/// kSystem.
Result<Options> read_job(int fd);

/// Whether all of `text` is a number from `least` to `most`, then in `number`.
bool to_number(const std::string& text, int least, int most, int& number);

}  // namespace hocket::run
