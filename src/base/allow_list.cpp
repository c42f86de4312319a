// SPDX-License-Identifier: Apache-2.0
#include "base/allow_list.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.hpp"
#include "base/words.hpp"

namespace hocket {
namespace {

// "all_reduce", "AllReduce" and "allreduce" are one.
std::string squeezed(std::string_view name) {
  std::string text;
  for (const char c : name) {
    if (c != '_') text += lower(c);
  }
  return text;
}

std::vector<Collective> collectives_named(std::string_view name) {
  const std::string wanted = squeezed(name);
  std::vector<Collective> found;
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    const bool send_or_receive = collective == Collective::kSend || collective == Collective::kReceive;
    if (squeezed(to_string(collective)) == wanted || (send_or_receive && wanted == "sendrecv") ||
        (collective == Collective::kReceive && wanted == "recv")) {
      found.push_back(collective);
    }
  }
  return found;
}

std::string joined(std::span<const std::string_view> words) {
  return join(words, ", ");
}

// Takes what stands before the next `separator` off the front of `text`; nothing is left after the last one.
std::optional<std::string_view> next_part(std::optional<std::string_view>& text, char separator) {
  if (!text) return std::nullopt;
  const std::size_t end = text->find(separator);
  const std::string_view part = trim(text->substr(0, end));
  if (end == std::string_view::npos) {
    text.reset();
  } else {
    text->remove_prefix(end + 1);
  }
  return part;
}

}  // namespace

Result<AllowList> AllowList::parse(std::string_view text, std::span<const std::string_view> known_names,
                                   std::string_view variable) {
  AllowList list;
  list.text_ = std::string(text);
  if (trim(text).empty()) return list;
  std::array<bool, kCollectiveCount>& has_own = list.own_;
  bool has_common = false;
  std::optional<std::string_view> rest = trim(text);
  while (const auto entry = next_part(rest, ';')) {
    const std::size_t colon = entry->find(':');
    const bool common = colon == std::string_view::npos;
    std::vector<Collective> collectives;
    if (!common) {
      const std::string_view name = trim(entry->substr(0, colon));
      collectives = collectives_named(name);
      if (collectives.empty()) {
        std::vector<std::string_view> names;
        names.reserve(kCollectiveCount);
        for (int i = 0; i < kCollectiveCount; ++i) names.push_back(to_string(static_cast<Collective>(i)));
        return error(Code::kInvalidArgument, "{}='{}': unknown collective '{}'{}; there are {}", variable, text, name,
                     nearest_hint(name, names), joined(names));
      }
    }

    Rule rule;
    std::string_view words = trim(common ? *entry : entry->substr(colon + 1));
    rule.all_but = words.starts_with('^');
    if (rule.all_but) words.remove_prefix(1);
    std::optional<std::string_view> words_left = words;
    while (const auto word = next_part(words_left, ',')) {
      if (word->empty()) {
        return error(Code::kInvalidArgument, "{}='{}': a name is missing in '{}'; there are {}", variable, text, *entry,
                     joined(known_names));
      }
      const auto known = std::find_if(known_names.begin(), known_names.end(),
                                      [&](std::string_view name) { return same_word(name, *word); });
      if (known == known_names.end()) {
        return error(Code::kInvalidArgument, "{}='{}': unknown name '{}'{}; there are {}", variable, text, *word,
                     nearest_hint(*word, known_names), joined(known_names));
      }
      rule.names.emplace_back(*known);
    }
    if (rule.all_but && std::all_of(known_names.begin(), known_names.end(), [&](std::string_view name) {
          return std::find(rule.names.begin(), rule.names.end(), name) != rule.names.end();
        })) {
      return error(Code::kInvalidArgument, "{}='{}': '{}' leaves nothing to choose from; there are {}", variable, text,
                   *entry, joined(known_names));
    }

    const Status twice = error(Code::kInvalidArgument, "{}='{}': '{}' speaks of something that was listed before",
                               variable, text, *entry);
    if (common) {
      if (std::exchange(has_common, true)) return twice;
      for (std::size_t i = 0; i < list.rules_.size(); ++i) {
        if (!has_own[i]) list.rules_[i] = rule;
      }
    }
    for (const Collective collective : collectives) {
      const auto i = static_cast<std::size_t>(collective);
      if (std::exchange(has_own[i], true)) return twice;
      list.rules_[i] = rule;
    }
  }
  return list;
}

bool AllowList::allows(Collective collective, std::string_view name) const noexcept {
  const Rule& rule = rules_[static_cast<std::size_t>(collective)];
  const bool listed =
      std::any_of(rule.names.begin(), rule.names.end(), [&](const std::string& n) { return same_word(n, name); });
  return listed != rule.all_but;
}

bool AllowList::restricts(Collective collective) const noexcept {
  const Rule& rule = rules_[static_cast<std::size_t>(collective)];
  return !rule.all_but || !rule.names.empty();
}

}  // namespace hocket
