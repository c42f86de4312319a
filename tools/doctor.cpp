// SPDX-License-Identifier: Apache-2.0
// tools/doctor.cpp: `hocket doctor`: looks at this machine for what makes jobs slow, risky or impossible.
//
// Facts are read (doctor/facts.hpp), checked (doctor/checks.hpp) and printed (doctor/report.hpp). Exit status: 0
// without warnings, 1 with warnings, 2 with errors or for wrong usage.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "tools/doctor/checks.hpp"
#include "tools/doctor/facts.hpp"
#include "tools/doctor/reach.hpp"
#include "tools/doctor/report.hpp"
#include "tools/run.hpp"
#include "tools/usage.hpp"

int doctor_main(int argc, char** argv) {
  CLI::App app(
      "Looks for what makes jobs slow, risky or impossible on this machine: each finding says what was seen, what it "
      "costs and what mends it. Changes nothing.",
      "hocket doctor");
  hocket::doctor::ReachOptions reach;
  reach.launcher = hocket::run::HostOptions().launcher;
  std::string root, hosts;
  bool json = false, agent = false;
  app.add_flag("--json", json,
               "print JSON: schema, host, worst, exit_status, findings (check, severity, seen, cost, mend)");
  auto* with_hosts = app.add_option("--hosts", hosts, "also try whether these hosts reach each other: a,b,c");
  app.add_option("--launcher", reach.launcher,
                 "how a command gets to a host, as of hocket run (default '" + reach.launcher + "')")
      ->needs(with_hosts);
  app.add_option("--hocket", reach.hocket, "path of this command on the other hosts (default: as here)")
      ->needs(with_hosts);
  app.add_option("--root", root, "read /proc and /sys below this folder, and nothing of this machine")
      ->excludes(with_hosts)
      ->check(CLI::ExistingDirectory);
  app.add_flag("--agent", agent, "the part of --hosts on one host")->group("");
  app.footer("Exit status: 0 without warnings, 1 with warnings, 2 with errors or for wrong usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return hocket::usage_answer(app, e);
  }
  if (agent) return hocket::doctor::run_reach_agent();
  if (!hosts.empty()) {
    const auto list = hocket::run::parse_hosts(hosts);
    if (!list.ok()) return hocket::usage_error("hocket doctor", list.status().text());
    for (const hocket::run::Host& host : *list) reach.hosts.push_back(host.name);
    if (reach.hocket.empty()) reach.hocket = hocket::run::this_program();
  }

  hocket::doctor::Facts facts = hocket::doctor::read_facts(root);
  if (root.empty()) {
    const hocket::Status tried = hocket::doctor::try_communicator();
    facts.communicator = tried.ok() ? hocket::doctor::Fact<bool>(true) : hocket::doctor::Fact<bool>(tried);
  }
  std::vector<hocket::doctor::Finding> findings = hocket::doctor::run_checks(facts);
  if (!reach.hosts.empty()) {
    for (hocket::doctor::Finding& one : hocket::doctor::try_hosts(reach)) findings.push_back(std::move(one));
  }
  hocket::print(stdout, "{}",
                json ? hocket::doctor::report_json(facts.host, HOCKET_VERSION, findings)
                     : hocket::doctor::report_text(facts.host, findings));
  return hocket::doctor::exit_status(findings);
}
