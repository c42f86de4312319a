// SPDX-License-Identifier: Apache-2.0
// Settings as variables of the environment, as text that travels between ranks, and lists of names.
#include "base/settings.hpp"

#include <string>

#include "fuzz/fuzz.hpp"

namespace {

using namespace hocket;

void environment(std::string_view text) {
  // One variable a line.
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    lines.emplace_back(line);
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  std::vector<const char*> block;
  for (const std::string& line : lines) block.push_back(line.c_str());
  block.push_back(nullptr);
  const auto settings = parse_environment(block.data());
  if (!settings.ok()) return;
  FUZZ_REQUIRE(validate(*settings).ok());
  (void)describe_changes(*settings);
  const auto again = agreed_settings_from_text(agreed_settings_to_text(*settings));
  FUZZ_REQUIRE(again.ok());
  FUZZ_REQUIRE(digest(*again) == digest(*settings));
  FUZZ_REQUIRE(describe_difference(*settings, *again).empty());
}

void list(std::string_view text) {
  constexpr std::string_view kNames[] = {"ring", "tree", "chain", "one_shot"};
  const auto allowed = AllowList::parse(text, kNames);
  if (!allowed.ok()) {
    FUZZ_REQUIRE(!allowed.status().text().empty());
    return;
  }
  bool any = false;
  for (int c = 0; c < kCollectiveCount; ++c)
    for (const std::string_view name : kNames) any |= allowed->allows(static_cast<Collective>(c), name);
  FUZZ_REQUIRE(any);  // a list that leaves nothing is refused
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text = fuzz::text_of(data, bytes);
  environment(text);
  list(text);
  (void)agreed_settings_from_text(text);
  return 0;
}
