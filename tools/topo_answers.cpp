// SPDX-License-Identifier: Apache-2.0
// tools/topo_answers.cpp: see topo_answers.hpp.
#include "tools/topo_answers.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/format.hpp"

/// The text of tests/topologies/corpus-answers.txt; the build makes it (topo_answers_built_in.cpp.in).
std::string_view topo_answers_built_in();

namespace {

std::map<std::string, TopoAnswer> parse(std::istream& in) {
  std::map<std::string, TopoAnswer> answers;
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string file;
    if (!(words >> file) || file[0] == '#') continue;
    std::string word;
    while (words >> word) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) continue;
      std::string value = word.substr(equals + 1);
      if (word.starts_with("why=")) {
        std::string rest;
        std::getline(words, rest);
        value += rest;
      }
      answers[file][word.substr(0, equals)] = value;
    }
  }
  return answers;
}

}  // namespace

TopoAnswers TopoAnswers::load(const std::string& path, const std::string& folder) {
  TopoAnswers answers;
  const std::string file = path.empty() ? (std::filesystem::path(folder) / "answers.txt").string() : path;
  if (std::ifstream in(file); in || !path.empty()) {
    answers.by_file_ = parse(in);
    answers.source_ = "answers of " + file;
    return answers;
  }
  std::istringstream in{std::string(topo_answers_built_in())};
  answers.by_file_ = parse(in);
  answers.source_ = "answers built in";
  answers.built_in_ = true;
  return answers;
}

TopoAnswer TopoAnswers::of(const std::string& file) const {
  if (const auto known = by_file_.find(file); known != by_file_.end()) return known->second;
  const std::string name = "/" + std::filesystem::path(file).filename().string();
  if (built_in_) {
    for (const auto& [known, answer] : by_file_) {
      if (known.ends_with(name)) return answer;
    }
  }
  return {};
}
