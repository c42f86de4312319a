// SPDX-License-Identifier: Apache-2.0
// topo/xml.hpp: an XML file with the lines of its elements, for errors that say where. Private to the readers.
#pragma once

#include <cstddef>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/status.hpp"

namespace hocket::topo {

/// A parsed document and the text it came from. Not copyable; elements are valid while it lives.
class XmlFile {
 public:
  static constexpr std::size_t kLimitBytes = 64 << 20;
  static constexpr int kLimitDepth = 64;

  /// `name` is what errors call the file. kInvalidArgument with its line for text that is no XML, whose root is not
  /// `root`, or that nests deeper than kLimitDepth.
  Status parse(std::string text, std::string name, const char* root);

  pugi::xml_node root() const { return document_.document_element(); }
  /// "FILE:12: <pci busid="0000:06:00.0">": where an element stands, and which it is.
  std::string where(const pugi::xml_node& element) const;

 private:
  int line_at(std::ptrdiff_t offset) const;

  std::string name_;
  std::vector<std::size_t> line_starts_;
  pugi::xml_document document_;
};

/// The whole of `text` as a number, "0x" in front of hexadecimal digits; nothing for anything else.
std::optional<long long> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

}  // namespace hocket::topo
