// SPDX-License-Identifier: Apache-2.0
// tools/main.cpp: the `hocket` command. Each subcommand is a file of its own; under a name like all_reduce_perf it is
// the benchmark of that collective.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "base/settings.hpp"
#include "tools/run.hpp"

namespace hocket::perf {
int perf_main(int argc, char** argv, const char* version);  // bench/perf/perf.cpp
}
int topo_main(int argc, char** argv);
int plan_main(int argc, char** argv);
int ps_main(int argc, char** argv);
int tune_main(int argc, char** argv);
int doctor_main(int argc, char** argv);
int sim_main(int argc, char** argv);

namespace {

using hocket::print;

int perf_command(int argc, char** argv) {
  return hocket::perf::perf_main(argc, argv, HOCKET_VERSION);
}

int version_command(int, char**) {
  hocket::print(stdout, "hocket {}\n", HOCKET_VERSION);
  return 0;
}

int help_command(int argc, char** argv);
int help_about(std::string_view name);

struct Command {
  std::string_view name;
  int (*main)(int, char**);
  std::string_view description;
};
constexpr Command kCommands[] = {
    {"perf", perf_command, "measure a collective: hocket perf all_reduce --ranks 4 -b 8 -e 64M -f 4"},
    {"run", run_main, "start a program as the ranks of one job: hocket run --ranks 4 PROGRAM"},
#ifdef HOCKET_HAS_TOPO
    {"topo", topo_main, "show the machine as hocket sees it"},
#endif
#ifdef HOCKET_HAS_PLAN
    {"plan", plan_main, "print what a rank does in a collective: hocket plan all_reduce --algo ring --ranks 8"},
#endif
#ifdef HOCKET_HAS_SIM
    {"sim", sim_main, "what a collective would take on other machines: hocket sim --machine 8xH100 --hosts 2048"},
#endif
#ifdef HOCKET_HAS_PS
    {"ps", ps_main, "show what the communicators of a running process do: hocket ps PID"},
#endif
#ifdef HOCKET_HAS_TUNE
    {"tune", tune_main, "measure which algorithms are fastest here, for HOCKET_TUNING: hocket tune -o FILE"},
#endif
    {"doctor", doctor_main, "look for what makes jobs slow, risky or impossible on this machine"},
    {"version", version_command, "print the version"},
    {"help", help_command, "print this; flags of a command: hocket help COMMAND"},
};

int help_command(int argc, char** argv) {
  if (argc > 1) return help_about(argv[1]);
  hocket::print(stdout, "hocket {}: collective communication\n\n", HOCKET_VERSION);
  for (const Command& command : kCommands)
    hocket::print(stdout, "  hocket {:<9} {}\n", command.name, command.description);
  return 0;
}

const Command* find_command(std::string_view name) {
  for (const Command& command : kCommands)
    if (command.name == name) return &command;
  return nullptr;
}

int no_such_command(std::string_view wanted) {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  hocket::print(stderr, "hocket: there is no command '{}'{}; see hocket help\n", wanted,
                hocket::nearest_hint(wanted, names));
  return 2;
}

int help_about(std::string_view name) {
  const Command* command = find_command(name);
  if (!command) return no_such_command(name);
  if (command->main == version_command || command->main == help_command) {
    hocket::print(stdout, "hocket {}: {}\n", command->name, command->description);
    return 0;
  }
  std::string own(name), flag = "--help";
  char* arguments[] = {own.data(), flag.data(), nullptr};
  return command->main(2, arguments);
}

int run(int argc, char** argv) {
  constexpr std::string_view kPerf = "_perf";
  const std::string_view path = argc > 0 ? argv[0] : "hocket";
  const std::string name(path.substr(path.rfind('/') + 1));
  if (name.ends_with(kPerf)) {
    std::string collective = name.substr(0, name.size() - kPerf.size());
    std::string perf = "perf";
    std::vector<char*> arguments = {perf.data(), collective.data()};
    arguments.insert(arguments.end(), argv + 1, argv + argc);
    const int count = static_cast<int>(arguments.size());
    arguments.push_back(nullptr);
    return perf_command(count, arguments.data());
  }
  if (argc < 2) {
    help_command(0, nullptr);
    return 2;
  }
  std::string_view wanted = argv[1];
  if (wanted == "--help" || wanted == "-h") wanted = "help";
  if (wanted == "--version") wanted = "version";
  const Command* command = find_command(wanted);
  return command ? command->main(argc - 1, argv + 1) : no_such_command(wanted);
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run(argc, argv);
  // A full disk must not look like success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    hocket::print(stderr, "hocket: the output could not be written\n");
    return code != 0 ? code : 1;
  }
  return code;
}
