// SPDX-License-Identifier: Apache-2.0
// fuzz/fuzz.hpp: what fuzz targets share. A target is one file, one LLVMFuzzerTestOneInput; its kept inputs are in
// corpus/TARGET. Whatever the bytes are, there must be a value or an error: no crash, no hang, no undefined behaviour.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/os/unique_fd.hpp"
#include "hocket/log.hpp"

/// A promise that holds for all inputs; where it does not, the fuzzer has found something.
#define FUZZ_REQUIRE(condition)                                                           \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (0)

namespace hocket::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t bytes) {
  return {reinterpret_cast<const char*>(data), bytes};
}

/// A copy on its own page of the heap, aligned for any type: reading past its end is seen.
inline std::vector<std::byte> copy_of(const std::uint8_t* data, std::size_t bytes) {
  std::vector<std::byte> copy(bytes);
  if (bytes != 0) std::memcpy(copy.data(), data, bytes);
  return copy;
}

/// Takes values off the front of an input; zeros once it is used up.
class Taker {
 public:
  Taker(const std::uint8_t* data, std::size_t bytes) : data_(data), left_(bytes) {}
  template <class T>
  T take() {
    T value{};
    const std::size_t n = left_ < sizeof value ? left_ : sizeof value;
    if (n != 0) std::memcpy(&value, data_, n);
    data_ += n;
    left_ -= n;
    return value;
  }
  std::string_view rest() const { return text_of(data_, left_); }
  std::size_t left() const { return left_; }
  const std::uint8_t* data() const { return data_; }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

/// A stream socket that holds `bytes` and then ends: what a peer that sent these and hung up looks like.
inline os::UniqueFd socket_with(const std::uint8_t* data, std::size_t bytes, int type = SOCK_STREAM) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  const os::UniqueFd theirs(ends[1]);
  os::UniqueFd ours(ends[0]);
  while (bytes > 0) {
    const ssize_t n = ::send(theirs.get(), data, bytes, MSG_NOSIGNAL);
    if (n <= 0) break;  // more than a socket holds: what follows is cut off
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  ::shutdown(theirs.get(), SHUT_WR);
  return ours;
}

/// Warnings would be most of the output.
inline const bool quiet = [] {
  set_log_callback([](LogLevel, std::string_view) {});
  return true;
}();

}  // namespace hocket::fuzz
