// SPDX-License-Identifier: Apache-2.0
// unit/topo_files.hpp: a temporary folder that stands for / in the topology tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace hocket::topo {

class TemporaryTree {
 public:
  TemporaryTree() {
    std::string name = (std::filesystem::temp_directory_path() / "hocket-topo-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
  }
  ~TemporaryTree() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  TemporaryTree(const TemporaryTree&) = delete;
  TemporaryTree& operator=(const TemporaryTree&) = delete;

  const std::string& root() const { return root_; }

  /// `path` starts with a slash; folders are made. Returns where the file lies.
  std::string write(std::string_view path, std::string_view text) const {
    const std::string file = root_ + std::string(path);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  std::string root_;
};

}  // namespace hocket::topo
