// SPDX-License-Identifier: Apache-2.0
// memfd.hpp: memory with a descriptor but no name: nothing in /dev/shm, nothing left when its last holder dies.
//
// A shared file that shrinks turns accesses behind its end into SIGBUS. So files are made with a sealed length, and a
// descriptor from a peer is used only after its seals were seen. A sparse file that finds no memory when it is touched
// is the other SIGBUS: reserve() gets the memory first, as an error.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/os/unique_fd.hpp"
#include "hocket/status.hpp"

namespace hocket::os {

/// A file of `bytes` zero bytes (rounded up to pages), sparse; its length is sealed, also against its maker.
///
/// `label` shows in /proc/PID/maps as "memfd:label". Errors: kOutOfMemory, kInvalidArgument, kSystem.
Result<UniqueFd> create_memfd(const char* label, std::size_t bytes);

/// The length of a file that came from a peer, which can no more change. Check it again in all processes that map it.
///
/// Errors: kInvalidArgument if it is no memfd, its length is not sealed, or it has fewer than `least_bytes`.
Result<std::size_t> check_memfd(int fd, std::size_t least_bytes);

/// Gets memory for a range, so that touching it cannot fail. Errors: kOutOfMemory, kSystem.
Status reserve(int fd, std::size_t offset, std::size_t bytes);

/// Gives the whole pages of a range back; they read as zero and are sparse again, in every process. Errors: kSystem.
Status punch_hole(int fd, std::size_t offset, std::size_t bytes);

/// Which object a descriptor is, to prove that two processes hold the same one.
struct FileId {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) noexcept = default;
};
Result<FileId> file_id(int fd);

}  // namespace hocket::os
