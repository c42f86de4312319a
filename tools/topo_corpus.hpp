// SPDX-License-Identifier: Apache-2.0
// tools/topo_corpus.hpp: `hocket topo --corpus DIR --table`: every machine file below a folder as one row of a table.
#pragma once

#include <string>
#include <vector>

/// Reads every file below `folder`, and says of each what was found and whether that is right: by its own proofs
/// (rings, trees, the matrix explained, saved and read back), by what NCCL chose (nccl-graph/NAME.graph.xml beside
/// nccl-xml/NAME.xml), and by `answers` (DIR/answers.txt if empty; none if that is not there). Returns 0 if no row is
/// wrong, else 1.
int topo_corpus(const std::string& folder, const std::string& answers);

/// Every file below the folder, by name; none, with a line on stderr, if it can't be read.
std::vector<std::string> files_below(const std::string& folder);
