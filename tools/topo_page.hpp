// SPDX-License-Identifier: Apache-2.0
// tools/topo_page.hpp: `hocket topo --corpus FOLDER --page FILE`: a page of all machines of a folder, for a browser.
#pragma once

#include <string>

/// One file without anything from outside: a table of all machines with GPUs, and a picture of each (topo_picture.hpp).
/// Returns the exit status: 1 with a line on stderr if there is no machine or the page can't be written.
int topo_page(const std::string& folder, const std::string& page);
