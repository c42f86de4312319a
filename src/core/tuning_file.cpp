// SPDX-License-Identifier: Apache-2.0
#include "core/tuning_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/os/unique_fd.hpp"
#include "base/status.hpp"

namespace hocket {

Result<std::shared_ptr<const Tuning>> load_tuning(const std::string& file) {
  // Without waiting: a pipe with no writer would hang here.
  const os::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_error(Code::kInvalidArgument, errno, "HOCKET_TUNING={}: can't be opened", file);
  std::string text;
  while (text.size() <= Tuning::kMostBytes) {
    char piece[16384];
    const ssize_t n = ::read(fd.get(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(Code::kInvalidArgument, errno, "HOCKET_TUNING={}: can't be read", file);
    if (n == 0) break;
    text.append(piece, static_cast<std::size_t>(n));
  }
  Result<Tuning> table = Tuning::parse(text, file);
  if (!table.ok()) return error(table.status().code(), "HOCKET_TUNING: {}", table.status().text());
  return std::make_shared<const Tuning>(std::move(*table));
}

}  // namespace hocket
