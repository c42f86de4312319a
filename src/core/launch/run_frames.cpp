// SPDX-License-Identifier: Apache-2.0
// run_frames.cpp: what the frames between a rank and `hocket run` may say. Both sides look here before they believe
// one.
#include <cstring>

#include "base/status.hpp"
#include "core/launch.hpp"

namespace hocket {

Result<std::size_t> launch_request_bytes(std::span<const std::byte> so_far, Rank rank) {
  LaunchHeader header;
  if (so_far.size() < sizeof header) return std::size_t{0};
  std::memcpy(&header, so_far.data(), sizeof header);
  if (header.magic != LaunchHeader::kMagic || header.version != LaunchHeader::kVersion)
    return error(Code::kInvalidArgument, "its library speaks another version than this command");
  if (header.rank != static_cast<std::uint32_t>(rank))
    return error(Code::kInvalidArgument, "it took the number of another rank");
  if (header.bytes > LaunchHeader::kMaxBytes) return error(Code::kInvalidArgument, "its request is too long");
  const std::size_t whole = sizeof header + header.bytes;
  if (so_far.size() > whole) return error(Code::kInvalidArgument, "it sent more than it announced");
  return whole;
}

Result<std::size_t> launch_answer_bytes(const LaunchHeader& answer, const LaunchHeader& request,
                                        std::size_t all_bytes) {
  if (answer.magic != LaunchHeader::kMagic || answer.version != LaunchHeader::kVersion) {
    return error(
        Code::kInvalidArgument,
        "the answer of the launcher has magic {:#x} and version {}, not {:#x} and {}: use the `hocket` command that "
        "belongs to this library",
        answer.magic, answer.version, LaunchHeader::kMagic, LaunchHeader::kVersion);
  }
  if (answer.sequence != request.sequence || answer.rank != request.rank) {
    return error(Code::kInternal, "the launcher answered exchange {} of rank {} instead", answer.sequence, answer.rank);
  }
  if (answer.code == 0) {
    if (answer.bytes == all_bytes) return all_bytes;
    return error(Code::kInvalidArgument, "the launcher answered with {} bytes instead of {}", answer.bytes, all_bytes);
  }
  if (answer.code > 255 || answer.bytes > LaunchHeader::kMaxTextBytes) {
    return error(Code::kInvalidArgument, "the launcher announces an error with code {} and a text of {} bytes",
                 answer.code, answer.bytes);
  }
  return static_cast<std::size_t>(answer.bytes);
}

}  // namespace hocket
