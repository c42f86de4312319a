// SPDX-License-Identifier: Apache-2.0
// doctor/report.cpp: see report.hpp.
#include "tools/doctor/report.hpp"

#include <algorithm>
#include <array>

#include "base/format.hpp"
#include "topo/graph.hpp"

namespace hocket::doctor {
namespace {

constexpr std::size_t kWidth = 100;

// Names come from the system, and whoever gave them may have put in what moves a terminal's cursor: as \xNN.
std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // 0x80 to 0x9f are commands as well, in UTF-8 after 0xc2 (else they continue a letter).
    const bool command = c == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    const bool continues = i > 0 && (static_cast<unsigned char>(text[i - 1]) & 0x80) != 0;
    if ((c < ' ' && c != '\n') || c == 0x7f || command || (c >= 0x80 && c < 0xa0 && !continues)) {
      out += format("\\x{:02x}", c);
      if (command) out += format("\\x{:02x}", static_cast<unsigned char>(text[++i]));
    } else {
      out += text[i];
    }
  }
  return out;
}

// Words below each other in lines of kWidth, each after the first indented; so are the text's own lines.
std::string wrapped(std::string_view any_text, std::size_t indent) {
  const std::string shown = printable(any_text);
  std::string_view text = shown;
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    const bool line_ends = word.size() < text.size() && text[word.size()] == '\n';
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) out += ' ', ++column;
    out += word;
    column += word.size();
    if (line_ends) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    }
  }
  return out;
}

}  // namespace

std::string report_text(const std::string& host, const std::vector<Finding>& findings) {
  std::array<int, 5> counts{};
  for (const Finding& one : findings) ++counts[static_cast<std::size_t>(one.severity)];
  std::string out;
  constexpr std::size_t kIndent = 25;
  for (const Severity severity : {Severity::kError, Severity::kWarning, Severity::kNote, Severity::kUnknown}) {
    for (const Finding& one : findings) {
      if (one.severity != severity) continue;
      out += format("{:<9}{:<15} {}\n", to_string(severity), one.check, wrapped(one.seen, kIndent));
      if (!one.cost.empty()) out += format("{:18}costs  {}\n", "", wrapped(one.cost, kIndent));
      if (!one.mend.empty()) out += format("{:18}mend   {}\n", "", wrapped(one.mend, kIndent));
    }
  }
  for (const Finding& one : findings) {
    if (one.severity == Severity::kFine)
      out += format("{:<9}{:<15} {}\n", "fine", one.check, wrapped(one.seen, kIndent));
  }
  const auto number = [&counts](Severity severity, std::string_view one, std::string_view many) {
    const int n = counts[static_cast<std::size_t>(severity)];
    return format("{} {}", n, n == 1 ? one : many);
  };
  return out + format("{}: {}, {}, {}, {} not readable\n", printable(host), number(Severity::kError, "error", "errors"),
                      number(Severity::kWarning, "warning", "warnings"), number(Severity::kNote, "note", "notes"),
                      counts[static_cast<std::size_t>(Severity::kUnknown)]);
}

std::string report_json(const std::string& host, const std::string& version, const std::vector<Finding>& findings) {
  using topo::json_string;
  std::string list;
  for (const Finding& one : findings) {
    list += format("{}\n{{\"check\":{},\"severity\":{},\"seen\":{},\"cost\":{},\"mend\":{}}}", list.empty() ? "" : ",",
                   json_string(one.check), json_string(to_string(one.severity)), json_string(one.seen),
                   json_string(one.cost), json_string(one.mend));
  }
  return format(
      "{{\"schema\":\"hocket doctor 1\",\"version\":{},\"host\":{},\"worst\":{},\"exit_status\":{},"
      "\"findings\":[{}\n]}}\n",
      json_string(version), json_string(host), json_string(to_string(worst_of(findings))), exit_status(findings), list);
}

}  // namespace hocket::doctor
