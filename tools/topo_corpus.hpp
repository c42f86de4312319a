// SPDX-License-Identifier: Apache-2.0
// tools/topo_corpus.hpp: `hocket topo --corpus DIR --table`: every machine file below a folder as one row of a table.
#pragma once

#include <string>

/// Reads every file below `folder`, and says of each what was found and whether that is right: by its own proofs
/// (rings, the matrix explained, saved and read back), by what NCCL chose (nccl-graph/NAME.graph.xml beside
/// nccl-xml/NAME.xml), and by `answers` (DIR/answers.txt if empty; none if that is not there). Returns 0 if no row is
/// wrong, else 1.
int topo_corpus(const std::string& folder, const std::string& answers);

/// One page with a picture of every machine with GPUs below `folder`, for a browser. 0, or 1 with a line on stderr.
int topo_corpus_page(const std::string& folder, const std::string& page);
