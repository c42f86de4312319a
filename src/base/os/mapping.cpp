// SPDX-License-Identifier: Apache-2.0
#include "base/os/mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include "base/status.hpp"

namespace hocket::os {
namespace {

Code code_of(int number) noexcept {
  return number == ENOMEM || number == EAGAIN || number == ENFILE ? Code::kOutOfMemory : Code::kSystem;
}

}  // namespace

Result<Mapping> Mapping::shared(int fd, std::size_t bytes, std::size_t offset, Access access) {
  if (bytes == 0 || offset % page_bytes() != 0) {
    return error(Code::kInvalidArgument, "mapping of {} bytes at offset {}: needs bytes, and whole pages before", bytes,
                 offset);
  }
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return system_error(code_of(errno), errno, "mmap of {} shared bytes", bytes);
  return Mapping(static_cast<std::byte*>(data), bytes);
}

Result<Mapping> Mapping::anonymous(std::size_t bytes) {
  if (bytes == 0) return error(Code::kInvalidArgument, "mapping of 0 bytes");
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return system_error(code_of(errno), errno, "mmap of {} private bytes", bytes);
  return Mapping(static_cast<std::byte*>(data), bytes);
}

void Mapping::unmap() noexcept {
  if (data_) ::munmap(data_, bytes_);
}

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::size_t round_up_to_pages(std::size_t bytes) noexcept {
  return (bytes + page_bytes() - 1) & ~(page_bytes() - 1);
}

}  // namespace hocket::os
