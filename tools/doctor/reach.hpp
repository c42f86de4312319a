// SPDX-License-Identifier: Apache-2.0
// doctor/reach.hpp: which hosts reach each other by TCP, tried by one `hocket doctor --agent` on each.
//
// An agent listens as a rank would (HOCKET_INTERFACE, HOCKET_PORTS), says where in one line on stdout, and then tries
// what the lines on its stdin tell it to. Nothing but a connection is made, and no byte is sent over it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "tools/doctor/checks.hpp"

namespace hocket::doctor {

struct ReachOptions {
  std::vector<std::string> hosts;
  /// How a command gets to a host, as of `hocket run`: {host} is its name.
  std::string launcher;
  /// The `hocket` of the other hosts.
  std::string hocket;
  std::chrono::milliseconds start_patience{20000};  ///< for an agent to answer
};

/// Starts the agents, has each try all others, and ends them. Findings of the check "hosts". Never fails.
std::vector<Finding> try_hosts(const ReachOptions& options);

/// One host's part. Exit status of the process.
int run_reach_agent();

}  // namespace hocket::doctor
