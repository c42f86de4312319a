// SPDX-License-Identifier: Apache-2.0
#include "core/control/meeting_socket.hpp"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/status.hpp"
#include "core/control/process_end.hpp"
#include "topo/hash.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

std::uint32_t network_namespace() {
  struct stat about {};
  return ::stat("/proc/self/ns/net", &about) == 0 ? static_cast<std::uint32_t>(about.st_ino) : 0;
}

// A number for a directory that does not depend on its path; 0 if there is none.
std::uint64_t identity_of(const std::string& directory) {
  struct stat about {};
  if (::stat(directory.c_str(), &about) < 0 || !S_ISDIR(about.st_mode)) return 0;
  const std::uint64_t id = topo::hash_bytes(
      format("{:x}.{:x}", static_cast<std::uint64_t>(about.st_dev), static_cast<std::uint64_t>(about.st_ino)));
  return id == 0 ? 1 : id;
}

// Directories in which this process would make or look for sockets, best first, with the one that names them.
struct SocketDirectory {
  std::string base;       // that is known by its identity
  std::string directory;  // in it, ours
};
std::vector<SocketDirectory> socket_directories() {
  std::vector<SocketDirectory> all;
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && runtime[0] == '/')
    all.push_back({runtime, std::string(runtime) + "/hocket"});
  all.push_back({"/tmp", format("/tmp/hocket-{}", ::geteuid())});
  return all;
}

// The socket file of a process as this one sees it; empty if it does not see its directory.
std::string path_of(const ProcessAddress& address) {
  if (address.socket_directory == 0) return {};
  for (const SocketDirectory& d : socket_directories()) {
    if (identity_of(d.base) != address.socket_directory) continue;
    std::string path = format("{}/{:016x}{:016x}", d.directory, address.token.high, address.token.low);
    if (path.size() <= 107) return path;
  }
  return {};
}

// A directory that only this user can change.
Status make_private_directory(const std::string& directory) {
  if (::mkdir(directory.c_str(), 0700) < 0 && errno != EEXIST) {
    return system_error(Code::kUnsupported, errno, "mkdir {}", directory);
  }
  struct stat about {};
  if (::lstat(directory.c_str(), &about) < 0) return system_error(Code::kUnsupported, errno, "lstat {}", directory);
  if (!S_ISDIR(about.st_mode) || about.st_uid != ::geteuid() || (about.st_mode & 077) != 0) {
    return error(Code::kUnsupported, "{} is no directory that only user {} may enter (owner {}, mode {:o}): remove it",
                 directory, ::geteuid(), about.st_uid, about.st_mode & 07777u);
  }
  return {};
}

// Removes sockets of processes that were killed while their file was there.
void sweep(const std::string& directory) {
  DIR* stream = ::opendir(directory.c_str());
  if (!stream) return;
  while (const dirent* entry = ::readdir(stream)) {
    const std::string path = directory + "/" + entry->d_name;
    struct stat about {};
    // One that is young may be between bind and listen.
    if (::lstat(path.c_str(), &about) < 0 || !S_ISSOCK(about.st_mode) || ::time(nullptr) - about.st_mtime < 60)
      continue;
    const auto socket = os::UnixSocket::connect(os::UnixAddress::path(path), os::UnixSocket::IfAbsent::kFail,
                                                {.deadline = os::Deadline::after(0s), .abort = nullptr});
    if (socket.status().code() == Code::kPeerLost) ::unlink(path.c_str());
  }
  ::closedir(stream);
}

}  // namespace

std::string abstract_socket_of(const ProcessAddress& address) {
  return format("hocket-{:016x}{:016x}", address.token.high, address.token.low);
}

Result<Way> way_between(const ProcessAddress& self, const ProcessAddress& peer, const ProcessAddress& listener) {
  if (self.network_namespace == peer.network_namespace) return Way::kAbstract;
  if (!path_of(listener).empty()) return Way::kPath;
  return error(Code::kUnsupported,
               "{} is in another network namespace and shares no directory for a socket: set XDG_RUNTIME_DIR to one "
               "that both see",
               process_name(peer.pid, peer.host_name));
}

os::UnixAddress address_on(Way way, const ProcessAddress& listener) {
  return way == Way::kAbstract ? os::UnixAddress::abstract(abstract_socket_of(listener))
                               : os::UnixAddress::path(path_of(listener));
}

Status MeetingSockets::open(ProcessAddress& address) {
  const std::scoped_lock lock(mutex_);
  HOCKET_ASSIGN(abstract_, os::UnixListener::listen(os::UnixAddress::abstract(abstract_socket_of(address))));
  address.network_namespace = network_namespace();
  for (const SocketDirectory& d : socket_directories()) {
    address.socket_directory = identity_of(d.base);
    if (!path_of(address).empty()) break;
    address.socket_directory = 0;
  }
  return events_.watch(abstract_->fd(), EPOLLIN, EventSet::Kind::kAbstract, 0);
}

Status MeetingSockets::open_path(const ProcessAddress& self) {
  const std::scoped_lock lock(mutex_);
  if (path_users_ == 0) {
    const std::string path = path_of(self);
    const std::string directory = path.substr(0, path.rfind('/'));
    HOCKET_TRY(make_private_directory(directory));
    sweep(directory);
    HOCKET_ASSIGN(path_, os::UnixListener::listen(os::UnixAddress::path(path)));
    if (Status status = events_.watch(path_->fd(), EPOLLIN, EventSet::Kind::kPath, 0); !status.ok()) {
      path_.reset();
      return status;
    }
  }
  ++path_users_;
  return {};
}

void MeetingSockets::close_path() {
  const std::scoped_lock lock(mutex_);
  if (--path_users_ > 0) return;
  events_.unwatch(path_->fd());
  path_.reset();
}

Result<os::UnixSocket> MeetingSockets::accept(EventSet::Kind kind, os::UniqueFd& spare) {
  const os::WaitLimits now{.deadline = os::Deadline::at_ns(0), .abort = nullptr};
  const std::scoped_lock lock(mutex_);
  if (kind == EventSet::Kind::kPath && !path_) return error(Code::kTimeout, "nobody is expected any more");
  os::UnixListener& listener = kind == EventSet::Kind::kPath ? *path_ : *abstract_;
  auto accepted = listener.accept(now);
  if (accepted.status().code() == Code::kOutOfMemory && spare) {
    spare.reset();
    accepted = listener.accept(now);
  }
  return accepted;
}

Status MeetingSockets::arm(bool on) {
  const std::uint32_t events = on ? std::uint32_t{EPOLLIN} : 0;
  const std::scoped_lock lock(mutex_);
  HOCKET_TRY(events_.watch(abstract_->fd(), events, EventSet::Kind::kAbstract, 0, true));
  return path_ ? events_.watch(path_->fd(), events, EventSet::Kind::kPath, 0, true) : Status();
}

}  // namespace hocket
