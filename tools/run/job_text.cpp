// SPDX-License-Identifier: Apache-2.0
#include "tools/run/job_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/format.hpp"
#include "base/status.hpp"
#include "core/launch.hpp"
#include "hocket/unique_id.hpp"

namespace hocket::run {
namespace {

constexpr std::string_view kJobLine = "hocket job 1";
constexpr int kMostRanks = 1 << 20;  // of all hosts

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '%') {
      result += "%25";
    } else if (c == '\n') {
      result += "%0a";
    } else {
      result += c;
    }
  }
  return result;
}

std::string unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "%25" || text.substr(i, 3) == "%0a") {
      result += text[i + 1] == '2' ? '%' : '\n';
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

Result<std::string> read_line(int fd) {
  std::string line;
  for (;;) {
    char c = 0;
    const ssize_t n = ::read(fd, &c, 1);  // what follows the text is not ours
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(Code::kSystem, errno, "read the job");
    if (n == 0) return error(Code::kInvalidArgument, "the job's text ends in the middle");
    if (c == '\n') return line;
    line += c;
    if (line.size() > 1 << 20) return error(Code::kInvalidArgument, "a line of the job is too long");
  }
}

// One item into `job`. Errors: kInvalidArgument.
Status take_item(const std::string& name, const std::string& value, Options& job) {
  int number = 0;
  bool good = true;
  if (name == "ranks") {
    good = to_number(value, 1, kMaxLaunchedRanks, job.ranks);
  } else if (name == "first") {
    good = to_number(value, 0, kMostRanks, job.first_rank);
  } else if (name == "world") {
    good = to_number(value, 1, kMostRanks, job.world);
  } else if (name == "id") {
    good = UniqueId::from_string(value).ok();
    job.unique_id = value;
  } else if (name == "grace_ms") {
    good = to_number(value, 0, 1 << 30, number);
    job.grace = std::chrono::milliseconds(number);
  } else if (name == "keep_going") {
    job.keep_going = value == "1";
  } else if (name == "tag") {
    job.tag = value == "1";
  } else if (name == "directory") {
    if (::chdir(value.c_str()) < 0) return system_error(Code::kInvalidArgument, errno, "chdir {}", value);
  } else if (name == "environment") {
    good = value.find('=') != std::string::npos && value.front() != '=';
    job.environment.push_back(value);
  } else if (name == "argument") {
    job.arguments.push_back(value);
  } else {
    good = false;
  }
  return good ? Status() : error(Code::kInvalidArgument, "the job's line '{}' is not understood", name);
}

}  // namespace

bool to_number(const std::string& text, int least, int most, int& number) {
  char* end = nullptr;
  errno = 0;
  const long value = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < least || value > most) return false;
  number = static_cast<int>(value);
  return true;
}

std::string job_text(const Options& job) {
  std::string text =
      format("{}\nranks {}\nfirst {}\nworld {}\nid {}\ngrace_ms {}\nkeep_going {:d}\ntag {:d}\n", kJobLine, job.ranks,
             job.first_rank, job.world, job.unique_id, job.grace.count(), job.keep_going, job.tag);
  char directory[4096];
  if (::getcwd(directory, sizeof directory)) text += format("directory {}\n", escaped(directory));
  for (const std::string& entry : job.environment) text += format("environment {}\n", escaped(entry));
  for (const std::string& argument : job.arguments) text += format("argument {}\n", escaped(argument));
  return text + "end\n";
}

Result<Options> read_job(int fd) {
  HOCKET_ASSIGN(const std::string first, read_line(fd));
  if (first != kJobLine) {
    return error(Code::kInvalidArgument, "stdin begins with '{}' instead of '{}': --agent is for `hocket run --hosts`",
                 escaped(first).substr(0, 40), kJobLine);
  }
  Options job;
  for (;;) {
    HOCKET_ASSIGN(const std::string line, read_line(fd));
    if (line == "end") break;
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string value = unescaped(std::string_view(line).substr(std::min(space + 1, line.size())));
    HOCKET_TRY(take_item(line.substr(0, space), value, job));
  }
  if (job.unique_id.empty() || job.first_rank + job.ranks > job.world) {
    return error(Code::kInvalidArgument, "the job lacks an id, or has ranks beyond its size");
  }
  return job;
}

}  // namespace hocket::run
