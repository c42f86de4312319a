// SPDX-License-Identifier: Apache-2.0
// topo/paste.hpp: text as a terminal printed it, out of what people and their tools made of it on the way.
//
// Pure. Next stop: topo/smi_matrix.hpp, topo/ibv_reader.hpp.
#pragma once

#include <string>
#include <string_view>

namespace hocket::topo {

/// The same text with colours (also those whose escape character was lost), carriage returns, quote marks, HTML,
/// Markdown, quoted tabs and wide blanks taken out. Table cells end in tabs. Tables of commas are as they were.
std::string clean_paste(std::string_view text);

/// A table whose fields are parted by commas, with or without quotes, with tabs in their place; anything else
/// unchanged.
std::string tabs_for_commas(std::string text);

/// XML as a page shows it ("&lt;system"), as XML; anything else as it is.
std::string plain_markup(std::string text);

/// UTF-16 with a byte order mark (what some systems write when output is sent to a file) as UTF-8; anything else as it
/// is.
std::string utf8_of(std::string text);

}  // namespace hocket::topo
