// SPDX-License-Identifier: Apache-2.0
// tools/topo_answers.hpp: what is known to be right of machine files, for `hocket topo --corpus DIR --table`.
//
// A line is a file and what is right of it: `nccl-xml/a.xml gpus=8 nics=5 class=switch rings=12
// near=0,1:PXB:mlx5_0;2,3:PXB:mlx5_1`. `why=…` to the end of the line is a reason for the reader of the table.
#pragma once

#include <map>
#include <string>

/// By what is checked: gpus, nics, class, rings, near …
using TopoAnswer = std::map<std::string, std::string>;

class TopoAnswers {
 public:
  /// Of the file `path`; with an empty path those of DIR/answers.txt, and if there is no such file those that the build
  /// took from tests/topologies/corpus-answers.txt.
  static TopoAnswers load(const std::string& path, const std::string& folder);

  /// Of a file by its place below the folder; of those built in, its name alone is enough. Empty if nothing is known.
  TopoAnswer of(const std::string& file) const;

  /// "answers of FILE", "answers built in".
  const std::string& source() const { return source_; }

 private:
  std::map<std::string, TopoAnswer> by_file_;
  std::string source_;
  bool built_in_ = false;
};
