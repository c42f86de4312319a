// SPDX-License-Identifier: Apache-2.0
// mapping.hpp: the owner of a range of mapped memory.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "hocket/status.hpp"

namespace hocket::os {

/// Memory from mmap, unmapped at the end. Starts at a page.
class Mapping {
 public:
  enum class Access { kRead, kReadWrite };

  /// `bytes` of `fd` from `offset` (a multiple of the page), shared with everybody who maps the same. The descriptor
  /// may be closed afterwards. Errors: kOutOfMemory, kInvalidArgument (no bytes, odd offset), kSystem.
  static Result<Mapping> shared(int fd, std::size_t bytes, std::size_t offset = 0, Access access = Access::kReadWrite);

  /// Zeroed memory of this process, given out page by page as it is touched. Errors as above.
  static Result<Mapping> anonymous(std::size_t bytes);

  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      unmap();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~Mapping() { unmap(); }

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  std::span<std::byte> span() const noexcept { return {data_, bytes_}; }
  explicit operator bool() const noexcept { return data_ != nullptr; }

  /// Gives the range up to the caller, still mapped.
  [[nodiscard]] std::byte* release() noexcept {
    bytes_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  void unmap() noexcept;

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Bytes of a page, and `bytes` rounded up to whole pages.
std::size_t page_bytes() noexcept;
std::size_t round_up_to_pages(std::size_t bytes) noexcept;

}  // namespace hocket::os
