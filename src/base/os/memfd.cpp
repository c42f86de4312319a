// SPDX-License-Identifier: Apache-2.0
#include "base/os/memfd.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <limits>

#include "base/os/mapping.hpp"
#include "base/status.hpp"

namespace hocket::os {
namespace {

Code code_of(int number) noexcept {
  switch (number) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
    case EFBIG: return Code::kOutOfMemory;
    default: return Code::kSystem;
  }
}

constexpr int kLengthSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

Result<UniqueFd> create_memfd(const char* label, std::size_t bytes) {
  if (bytes == 0 || bytes > static_cast<std::size_t>(std::numeric_limits<off_t>::max()) - page_bytes()) {
    return error(Code::kInvalidArgument, "shared memory {} of {} bytes is not possible", label, bytes);
  }
  UniqueFd fd(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return system_error(code_of(errno), errno, "memfd_create for {} (see ulimit -n)", label);
  const std::size_t length = round_up_to_pages(bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(length)) < 0) {
    return system_error(code_of(errno), errno, "ftruncate of {} to {} bytes", label, length);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kLengthSeals) < 0) return system_error(Code::kSystem, errno, "sealing {}", label);
  return fd;
}

Result<std::size_t> check_memfd(int fd, std::size_t least_bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return system_error(Code::kInvalidArgument, errno, "the descriptor is no sealed memory file");
  if ((seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW)) {
    return error(Code::kInvalidArgument, "the length of the memory file is not sealed (seals {:#x})", seals);
  }
  if ((seals & F_SEAL_WRITE) != 0) {
    return error(Code::kInvalidArgument, "the memory file is sealed against writing (seals {:#x})", seals);
  }
  // Huge pages are a fixed pool: touching a sparse file of them when the pool is empty is a SIGBUS.
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) < 0) return system_error(Code::kSystem, errno, "fstatfs of a memory file");
  if (file_system.f_type != TMPFS_MAGIC) {
    return error(Code::kInvalidArgument, "the memory file is not of ordinary pages (file system {:#x})",
                 static_cast<unsigned long>(file_system.f_type));
  }
  // Only now: before the seals were seen the length could still change.
  struct stat about {};
  if (::fstat(fd, &about) < 0) return system_error(Code::kSystem, errno, "fstat of a memory file");
  const auto bytes = static_cast<std::size_t>(about.st_size);
  if (bytes < least_bytes) {
    return error(Code::kInvalidArgument, "the memory file has {} bytes, {} are needed", bytes, least_bytes);
  }
  return bytes;
}

Status reserve(int fd, std::size_t offset, std::size_t bytes) {
  // An interrupted fallocate undoes all its work, so under a steady signal only short ranges ever end.
  constexpr std::size_t kShortRange = std::size_t{16} << 20;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t n = std::min(kShortRange, bytes - done);
    if (::fallocate(fd, 0, static_cast<off_t>(offset + done), static_cast<off_t>(n)) == 0) {
      done += n;
    } else if (errno != EINTR) {
      return system_error(code_of(errno), errno, "no memory for {} bytes of shared memory ({} of them reserved)", bytes,
                          done);
    }
  }
  return {};
}

Status punch_hole(int fd, std::size_t offset, std::size_t bytes) {
  const std::size_t first = round_up_to_pages(offset);
  const std::size_t last = (offset + bytes) & ~(page_bytes() - 1);
  if (first >= last) return {};
  while (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first),
                     static_cast<off_t>(last - first)) < 0) {
    if (errno != EINTR)
      return system_error(Code::kSystem, errno, "giving back {} bytes of shared memory", last - first);
  }
  return {};
}

Result<FileId> file_id(int fd) {
  struct stat about {};
  if (::fstat(fd, &about) < 0) return system_error(Code::kSystem, errno, "fstat of a descriptor");
  return FileId{about.st_dev, about.st_ino};
}

}  // namespace hocket::os
