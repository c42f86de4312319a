// SPDX-License-Identifier: Apache-2.0
#include "core/control.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/log.hpp"
#include "base/status.hpp"
#include "topo/hash.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

// How long a peer may take over a handshake before its place is given to others.
constexpr auto kHandshakeTime = 20s;
// A process closes its sockets a little before its pidfd says that it ended; so long an end of the connection waits for
// that.
constexpr auto kEndingTime = 100ms;
// Half of the proof words, so that as many are left to connect to others.
constexpr std::size_t kMostConversations = 128;

std::string_view text_of(const char* field, std::size_t bytes) {
  return {field, ::strnlen(field, bytes)};
}
template <std::size_t n>
std::string_view text_of(const std::array<char, n>& field) {
  return text_of(field.data(), n);
}

// ---- Where to listen ----
//
// Two processes of one network namespace meet at an abstract socket, others at a file. Its directory is one that both
// see: an address names it by what the file system says it is, not by a path. So both sides know from the addresses
// alone which of the two can work, and come to the same answer. The file is made only when a peer from another
// namespace is expected, and removed when it has connected.

std::uint32_t network_namespace() {
  struct stat about {};
  return ::stat("/proc/self/ns/net", &about) == 0 ? static_cast<std::uint32_t>(about.st_ino) : 0;
}

/// A number for a directory that does not depend on its path; 0 if there is none.
std::uint64_t identity_of(const std::string& directory) {
  struct stat about {};
  if (::stat(directory.c_str(), &about) < 0 || !S_ISDIR(about.st_mode)) return 0;
  const std::uint64_t id = topo::hash_bytes(
      format("{:x}.{:x}", static_cast<std::uint64_t>(about.st_dev), static_cast<std::uint64_t>(about.st_ino)));
  return id == 0 ? 1 : id;
}

/// Directories in which this process would make or look for sockets, best first, with the one that names them.
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

/// The socket file of a process as this one sees it; empty if it does not see its directory.
std::string path_of(const ProcessAddress& address) {
  if (address.socket_directory == 0) return {};
  for (const SocketDirectory& d : socket_directories()) {
    if (identity_of(d.base) != address.socket_directory) continue;
    std::string path = format("{}/{:016x}{:016x}", d.directory, address.token.high, address.token.low);
    if (path.size() <= 107) return path;
  }
  return {};
}

enum class Way { kAbstract, kPath };

// Errors: kUnsupported. `listener` is the one of the two that is connected to.
Result<Way> way_between(const ProcessAddress& self, const ProcessAddress& peer, const ProcessAddress& listener) {
  if (self.network_namespace == peer.network_namespace) return Way::kAbstract;
  if (!path_of(listener).empty()) return Way::kPath;
  return error(Code::kUnsupported,
               "{} is in another network namespace and shares no directory for a socket: set XDG_RUNTIME_DIR to one "
               "that both see",
               process_name(peer.pid, text_of(peer.host_name)));
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

// ---- How a process ended ----

// "ended by signal 9", as long as the process is a zombie whose status we may read; else only that it ended.
std::string how_it_ended(pid_t pid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  const os::UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  char text[4096];
  const ssize_t n = fd ? ::read(fd.get(), text, sizeof text - 1) : -1;
  if (n <= 0) return "ended";
  text[n] = '\0';
  const char* const bracket = std::strrchr(text, ')');
  const char* const last = std::strrchr(text, ' ');
  // The exit status is the last of the fields, and 0 to those who may not know it.
  if (!bracket || bracket[1] != ' ' || bracket[2] != 'Z' || !last) return "ended";
  const int status = std::atoi(last + 1);
  if (WIFSIGNALED(status)) return format("was ended by signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) != 0 ? format("ended with exit code {}", WEXITSTATUS(status)) : "ended";
}

// None where the kernel has none, descriptors ran out, or the process cannot be seen; then its socket alone shows its
// end.
std::shared_ptr<const os::PidFd> open_process(pid_t pid, std::uint64_t start_ticks) {
  if (pid <= 0 || pid == ::getpid()) return nullptr;
  auto process = os::PidFd::open(pid, start_ticks);
  return process.ok() ? std::make_shared<const os::PidFd>(std::move(process).value()) : nullptr;
}

}  // namespace

std::string abstract_socket_of(const ProcessAddress& address) {
  return format("hocket-{:016x}{:016x}", address.token.high, address.token.low);
}

// ---- Life ----

Result<std::unique_ptr<ControlThread>> ControlThread::create(ProcessAddress& address, Arena& arena, bool refuse_shm,
                                                             Hooks hooks) {
  std::unique_ptr<ControlThread> control(new ControlThread(address, arena, refuse_shm, std::move(hooks)));
  HOCKET_TRY(control->listen(address));
  HOCKET_ASSIGN(control->thread_, os::Thread::start("hocket control", [c = control.get()] { c->run(); }));
  return control;
}

Status ControlThread::listen(ProcessAddress& address) {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  spare_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!epoll_ || !wake_ || !spare_) {
    return system_error(Code::kOutOfMemory, errno, "descriptors for the control thread (see ulimit -n)");
  }
  HOCKET_ASSIGN(abstract_, os::UnixListener::listen(os::UnixAddress::abstract(abstract_socket_of(address))));
  address.network_namespace = network_namespace();
  for (const SocketDirectory& d : socket_directories()) {
    address.socket_directory = identity_of(d.base);
    if (!path_of(address).empty()) break;
    address.socket_directory = 0;
  }
  HOCKET_TRY(watch(wake_.get(), EPOLLIN, Kind::kWake, 0));
  return watch(abstract_->fd(), EPOLLIN, Kind::kAbstract, 0);
}

void ControlThread::wake() {
  if (fork_mark_.forked()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

ControlThread::~ControlThread() {
  // In a child the descriptors are still the parent's: nothing may be written to them.
  if (!fork_mark_.forked() && thread_.running()) {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    wake();
  }
  thread_.join();
  if (fork_mark_.forked()) return;
  // Peers see the end also if a child of this process holds the same sockets.
  for (auto& [id, link] : links_) {
    if (link.socket) link.socket->shutdown();
  }
}

Status ControlThread::watch(int fd, std::uint32_t events, Kind kind, std::uint64_t id, bool again) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id << 3 | static_cast<std::uint64_t>(kind);
  if (::epoll_ctl(epoll_.get(), again ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return system_error(errno == ENOMEM || errno == ENOSPC ? Code::kOutOfMemory : Code::kSystem, errno, "epoll_ctl");
}

// Before every close: a forked child that holds the same open file would keep it, and its events, in the set.
void ControlThread::unwatch(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// ---- Connecting ----

Result<std::shared_ptr<ShmEndpoint>> ControlThread::connect(const ProcessAddress& peer, const os::WaitLimits& limits,
                                                            bool alone) {
  if (peer.uid != self_.address.uid) {
    return error(Code::kUnsupported, "{} belongs to user {}, this process to user {}",
                 process_name(peer.pid, text_of(peer.host_name)), peer.uid, self_.address.uid);
  }
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, link] : links_) {
      if (link.peer == peer.token && link.state == Link::State::kLive) return link.endpoint;
    }
  }
  return alone || self_.address.token < peer.token ? connect_first(peer, limits, alone)
                                                   : await_connection(peer, limits);
}

Result<std::shared_ptr<ShmEndpoint>> ControlThread::connect_first(const ProcessAddress& peer,
                                                                  const os::WaitLimits& limits, bool alone) {
  const std::string name = process_name(peer.pid, text_of(peer.host_name));
  HOCKET_ASSIGN(const Way way, way_between(self_.address, peer, peer));
  // The peer makes its file only when it comes to connect to us, too.
  const auto if_absent = alone ? os::UnixSocket::IfAbsent::kFail : os::UnixSocket::IfAbsent::kRetry;
  auto connected = way == Way::kAbstract
                       ? os::UnixSocket::connect(os::UnixAddress::abstract(abstract_socket_of(peer)),
                                                 os::UnixSocket::IfAbsent::kFail, limits)
                       : os::UnixSocket::connect(os::UnixAddress::path(path_of(peer)), if_absent, limits);
  if (!connected.ok()) {
    return error(connected.status().code(), "{} cannot be reached: {}", name, connected.status().text());
  }
  os::UnixSocket socket = std::move(connected).value();
  socket.set_peer_name(name);
  HOCKET_TRY(socket.check_same_user());
  HOCKET_ASSIGN(const os::PeerCredentials credentials, socket.peer());
  auto process = open_process(credentials.pid, peer.pid_start_ticks);

  ShmHandshake handshake(self_, ShmHandshake::Role::kInitiator, socket.fd(), peer.token);
  for (;;) {
    auto step = handshake.advance();
    if (!step.ok()) return error(step.status().code(), "{}: {}", name, step.status().text());
    if (*step == ShmHandshake::Step::kDone) break;
    // A child of the peer may hold the listening socket, so that alone does not show that the peer died.
    pollfd fds[2] = {{socket.fd(), static_cast<short>(*step == ShmHandshake::Step::kWantsRead ? POLLIN : POLLOUT), 0},
                     {process ? process->fd() : -1, POLLIN, 0}};
    HOCKET_TRY(os::poll_for(fds, limits, format("the handshake with {}", name)));
    if (fds[0].revents == 0) return error(Code::kPeerLost, "{} {}", name, how_it_ended(process->pid()));
  }
  HOCKET_TRY(handshake.outcome());
  return install(peer.token, name, std::move(socket), std::move(process), handshake.take_mapping(), true);
}

Result<std::shared_ptr<ShmEndpoint>> ControlThread::await_connection(const ProcessAddress& peer,
                                                                     const os::WaitLimits& limits) {
  const std::string name = process_name(peer.pid, text_of(peer.host_name));
  HOCKET_ASSIGN(os::AbortFlag arrived, os::AbortFlag::create());
  HOCKET_ASSIGN(const Way way, way_between(self_.address, peer, self_.address));

  // Taken back at every way out.
  struct Presence {
    ControlThread& control;
    const ProcessToken token;
    const bool path;
    ~Presence() {
      if (path) control.close_path_listener();
      const std::scoped_lock lock(control.mutex_);
      control.waiting_.erase(token);
    }
  };
  if (way == Way::kPath) HOCKET_TRY(open_path_listener());
  const Presence presence{*this, peer.token, way == Way::kPath};
  {
    const std::scoped_lock lock(mutex_);
    waiting_[peer.token] = &arrived;
  }

  std::shared_ptr<const os::PidFd> process;
  bool first = true;
  for (;;) {
    // Before the look at the links: what it announces is there by then, or is gone again.
    const bool announced = arrived.raised();
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [id, link] : links_) {
        if (link.peer == peer.token && link.state == Link::State::kLive) return link.endpoint;
      }
      if (const auto refused = refused_.find(peer.token); refused != refused_.end()) {
        const Status why = refused->second;
        refused_.erase(refused);
        return why;
      }
    }
    if (announced) return error(Code::kPeerLost, "{} connected and was lost at once", name);
    if (process && process->exited()) return error(Code::kPeerLost, "{} {}", name, how_it_ended(process->pid()));
    if (first && way == Way::kAbstract) {
      // Is it there at all? Also to learn its number in this process's view.
      auto probe = os::UnixSocket::connect(os::UnixAddress::abstract(abstract_socket_of(peer)),
                                           os::UnixSocket::IfAbsent::kFail, limits);
      if (!probe.ok()) return error(probe.status().code(), "{} cannot be reached: {}", name, probe.status().text());
      if (const auto credentials = probe->peer(); credentials.ok()) {
        process = open_process(credentials->pid, peer.pid_start_ticks);
      }
      first = false;
      continue;  // it may have connected meanwhile
    }
    pollfd fds[2] = {{arrived.fd(), POLLIN, 0}, {process ? process->fd() : -1, POLLIN, 0}};
    HOCKET_TRY(os::poll_for(fds, limits, format("{} to connect", name)));
  }
}

Result<std::shared_ptr<ShmEndpoint>> ControlThread::install(const ProcessToken& peer, std::string name,
                                                            os::UnixSocket socket,
                                                            std::shared_ptr<const os::PidFd> process,
                                                            os::Mapping mapping, bool initiated) {
  auto endpoint = std::make_shared<ShmEndpoint>(std::move(mapping));
  std::optional<Loss> replaced;
  {
    const std::scoped_lock lock(mutex_);
    // A process that connects once more has lost the old connection, which we just have not seen yet. One from each
    // side is no such thing: both connected at once.
    for (const auto& [id, link] : links_) {
      if (link.peer == peer && link.state != Link::State::kLost && link.initiated == initiated) {
        replaced = lose_locked(id, "made a new connection in place of this one", false);
        break;
      }
    }
  }
  announce(replaced);
  const std::scoped_lock lock(mutex_);
  {
    const std::scoped_lock lost_lock(listeners_mutex_);
    lost_.erase(peer);
  }
  const std::uint64_t id = next_id_++;
  Link& link = links_[id];
  link.peer = peer;
  link.name = std::move(name);
  link.endpoint = endpoint;
  link.initiated = initiated;
  link.process = std::move(process);
  link.socket.emplace(std::move(socket));
  Status status = watch(link.socket->fd(), EPOLLIN | EPOLLRDHUP, Kind::kSocket, id);
  if (status.ok() && link.process) status = watch(link.process->fd(), EPOLLIN, Kind::kProcess, id);
  if (!status.ok()) {
    unwatch(link.socket->fd());
    links_.erase(id);
    return status;
  }
  HOCKET_LOG(LogLevel::kDebug, "process {} shm connected to {}", self_.address.pid, link.name);
  return endpoint;
}

Status ControlThread::open_path_listener() {
  const std::scoped_lock lock(mutex_);
  if (path_users_ == 0) {
    const std::string path = path_of(self_.address);
    const std::string directory = path.substr(0, path.rfind('/'));
    HOCKET_TRY(make_private_directory(directory));
    sweep(directory);
    HOCKET_ASSIGN(path_, os::UnixListener::listen(os::UnixAddress::path(path)));
    if (Status status = watch(path_->fd(), EPOLLIN, Kind::kPath, 0); !status.ok()) {
      path_.reset();
      return status;
    }
  }
  ++path_users_;
  return {};
}

void ControlThread::close_path_listener() {
  const std::scoped_lock lock(mutex_);
  if (--path_users_ > 0) return;
  unwatch(path_->fd());
  path_.reset();
}

// ---- Listeners ----

std::uint64_t ControlThread::subscribe(LossListener listener) {
  const std::scoped_lock lock(listeners_mutex_);
  for (const auto& [token, lost] : lost_) listener(token, lost.why);
  const std::uint64_t id = next_listener_++;
  listeners_.emplace(id, std::move(listener));
  return id;
}

void ControlThread::unsubscribe(std::uint64_t id) {
  const std::scoped_lock lock(listeners_mutex_);
  listeners_.erase(id);
}

void ControlThread::report_loss(const ProcessToken& peer, const Status& why) {
  announce(Loss{peer, {why, false}});
}

void ControlThread::announce(const std::optional<Loss>& loss) {
  if (!loss) return;
  HOCKET_LOG(LogLevel::kInfo, "{}", loss->lost.why.text());
  if (loss->lost.ended) hooks_.ended(loss->peer);
  const std::scoped_lock lock(listeners_mutex_);
  lost_.insert_or_assign(loss->peer, loss->lost);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, listener] : listeners_) ids.push_back(id);
  for (const std::uint64_t id : ids) {
    // A copy, as it may unsubscribe itself.
    if (const auto found = listeners_.find(id); found != listeners_.end())
      LossListener(found->second)(loss->peer, loss->lost.why);
  }
}

Status ControlThread::fence(const ProcessToken& peer, const os::WaitLimits& limits) {
  std::shared_ptr<const os::PidFd> process;
  std::string name;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, link] : links_) {
      if (link.peer != peer) continue;
      name = link.name;
      if (link.process) process = link.process;
    }
  }
  if (!process) {
    const std::scoped_lock lock(listeners_mutex_);
    const auto lost = lost_.find(peer);
    if (lost != lost_.end() && lost->second.ended) return {};
    return error(
        Code::kUnsupported, "{} cannot be ended from here: {}", name.empty() ? "a process never connected to" : name,
        name.empty()
            ? "it is not known"
            : "there is no pidfd for it (it is this process itself, or not of this host, or the kernel has none)");
  }
  HOCKET_LOG(LogLevel::kWarn, "{} is ended to keep it from memory that is used anew", name);
  const Status sent = process->send_signal(SIGKILL);
  if (!sent.ok() && sent.code() != Code::kPeerLost) return sent;
  return process->wait_exit(limits);
}

// ---- The thread ----

void ControlThread::run() {
  std::array<epoll_event, 32> events;
  for (;;) {
    const os::Deadline due = handle_due();
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), due.poll_timeout_ms());
    for (int i = 0; i < n; ++i) {
      const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
      handle(static_cast<Kind>(data & 7), data >> 3);
    }
    const std::scoped_lock lock(mutex_);
    if (stop_) return;
  }
}

os::Deadline ControlThread::handle_due() {
  os::Deadline next = hooks_.tidy();
  std::vector<std::uint64_t> late;
  for (const auto& [id, conversation] : conversations_) {
    if (conversation.deadline.passed()) {
      late.push_back(id);
    } else {
      next = std::min(next, conversation.deadline);
    }
  }
  for (const std::uint64_t id : late) {
    HOCKET_LOG(LogLevel::kWarn, "process {} connected and did not finish its handshake within {} s, it is dropped",
               conversations_.at(id).credentials.pid, std::chrono::seconds(kHandshakeTime).count());
    end_conversation(id);
  }
  std::vector<Loss> losses;
  {
    const std::scoped_lock lock(mutex_);
    std::vector<std::uint64_t> ended;
    for (const auto& [id, link] : links_) {
      if (link.state != Link::State::kEnding) continue;
      if (link.due.passed()) {
        ended.push_back(id);
      } else {
        next = std::min(next, link.due);
      }
    }
    for (const std::uint64_t id : ended) {
      if (auto loss = lose_locked(id, links_.at(id).cause + " but still runs", false))
        losses.push_back(std::move(*loss));
    }
  }
  for (Loss& loss : losses) announce(std::move(loss));
  if (starved_ || !armed_) {
    arm_listeners();
    if (!armed_) next = std::min(next, os::Deadline::after(100ms));
  }
  return next;
}

void ControlThread::handle(Kind kind, std::uint64_t id) {
  switch (kind) {
    case Kind::kWake: {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
      break;
    }
    case Kind::kAbstract:
    case Kind::kPath: accept_all(kind); break;
    case Kind::kConversation: converse(id); break;
    case Kind::kSocket: socket_event(id); break;
    case Kind::kProcess: process_event(id); break;
  }
}

void ControlThread::accept_all(Kind kind) {
  const os::WaitLimits now{.deadline = os::Deadline::at_ns(0), .abort = nullptr};
  while (!starved_ && conversations_.size() < kMostConversations) {
    Result<os::UnixSocket> accepted = error(Code::kTimeout, "nobody");
    std::uint64_t id = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (kind == Kind::kPath && !path_) return;
      os::UnixListener& listener = kind == Kind::kPath ? *path_ : *abstract_;
      accepted = listener.accept(now);
      if (accepted.status().code() == Code::kOutOfMemory) {
        // The peer should hear about it: one more is taken in place of the spare, and its handshake ends with that
        // error.
        starved_ = true;
        spare_.reset();
        accepted = listener.accept(now);
      }
      id = next_id_++;
    }
    if (!accepted.ok()) {
      if (accepted.status().code() == Code::kTimeout) break;
      HOCKET_LOG(LogLevel::kWarn, "a peer cannot be accepted: {}", accepted.status().text());
      starved_ = true;
      break;
    }
    const auto credentials = accepted->peer();
    const Status same_user = accepted->check_same_user();
    if (!credentials.ok() || !same_user.ok()) {
      HOCKET_LOG(LogLevel::kWarn, "a connection is dropped: {}", same_user.text());
      continue;
    }
    Conversation conversation{.socket = std::move(accepted).value(),
                              .credentials = *credentials,
                              .deadline = os::Deadline::after(kHandshakeTime),
                              .handshake = nullptr};
    conversation.handshake =
        std::make_unique<ShmHandshake>(self_, ShmHandshake::Role::kAcceptor, conversation.socket.fd());
    const Status watched = watch(conversation.socket.fd(), EPOLLIN, Kind::kConversation, id);
    if (!watched.ok()) {
      HOCKET_LOG(LogLevel::kWarn, "a connection is dropped: {}", watched.text());
      continue;
    }
    conversations_.emplace(id, std::move(conversation));
  }
  arm_listeners();
}

// Listens as long as there is room for one more, else the queue in the kernel holds the others.
void ControlThread::arm_listeners() {
  if (starved_ && conversations_.empty()) {
    if (!spare_) spare_.reset(::eventfd(0, EFD_CLOEXEC));
    starved_ = !spare_;
  }
  const bool arm = !starved_ && conversations_.size() < kMostConversations;
  if (arm == armed_) return;
  const std::uint32_t events = arm ? std::uint32_t{EPOLLIN} : 0;
  const std::scoped_lock lock(mutex_);
  Status status = watch(abstract_->fd(), events, Kind::kAbstract, 0, true);
  if (status.ok() && path_) status = watch(path_->fd(), events, Kind::kPath, 0, true);
  if (status.ok()) armed_ = arm;
}

void ControlThread::converse(std::uint64_t id) {
  const auto found = conversations_.find(id);
  if (found == conversations_.end()) return;
  Conversation& conversation = found->second;
  ShmHandshake& handshake = *conversation.handshake;
  const auto step = handshake.advance();
  if (step.ok() && *step != ShmHandshake::Step::kDone) {
    const bool wants_write = *step == ShmHandshake::Step::kWantsWrite;
    if (wants_write == conversation.wants_write) return;
    conversation.wants_write = wants_write;
    const Status watched =
        watch(conversation.socket.fd(), wants_write ? EPOLLOUT : EPOLLIN, Kind::kConversation, id, true);
    if (watched.ok()) return;
    HOCKET_LOG(LogLevel::kWarn, "process {} is dropped: {}", conversation.credentials.pid, watched.text());
    return end_conversation(id);
  }
  Status failed;
  if (!step.ok()) {
    failed = step.status();
    // One that goes away, also one that only looked whether somebody is here, is nothing to worry about.
    HOCKET_LOG(failed.code() == Code::kPeerLost ? LogLevel::kDebug : LogLevel::kWarn,
               "process {} is dropped in its handshake: {}", conversation.credentials.pid, failed.text());
  } else if (!handshake.outcome().ok()) {
    failed = handshake.outcome();
    HOCKET_LOG(LogLevel::kDebug, "no shared memory with process {}: {}", conversation.credentials.pid, failed.text());
  } else {
    const ShmMessage& peer = *handshake.peer();
    auto process = open_process(conversation.credentials.pid, peer.start_ticks);
    // The socket moves on: it is watched under another name from here.
    unwatch(conversation.socket.fd());
    failed = install(peer.from, process_name(peer.pid, text_of(peer.host_name)), std::move(conversation.socket),
                     std::move(process), handshake.take_mapping(), false)
                 .status();
  }
  // A connection that just ended says nothing: its maker gave up, and may come again; whether it died shows elsewhere.
  if (step.ok()) {
    const ProcessToken token = handshake.peer()->from;
    const std::scoped_lock lock(mutex_);
    if (failed.ok()) {
      refused_.erase(token);
    } else {
      refused_.insert_or_assign(token, failed);
    }
    if (const auto waiting = waiting_.find(token); waiting != waiting_.end()) waiting->second->raise();
  }
  end_conversation(id);
}

void ControlThread::end_conversation(std::uint64_t id) {
  const auto found = conversations_.find(id);
  if (const int fd = found->second.socket.fd(); fd >= 0) unwatch(fd);
  conversations_.erase(found);
  arm_listeners();
}

void ControlThread::socket_event(std::uint64_t id) {
  std::optional<Loss> loss;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = links_.find(id);
    if (found == links_.end() || !found->second.socket) return;
    Link& link = found->second;
    char byte = 0;
    const ssize_t n = ::recv(link.socket->fd(), &byte, 1, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    // After the handshake nothing is said on this socket.
    link.cause = n > 0 ? "broke the protocol of its connection" : "closed its connection";
    unwatch(link.socket->fd());
    link.socket.reset();
    if (link.process) {
      link.state = Link::State::kEnding;
      link.due = os::Deadline::after(kEndingTime);
    } else {
      loss = lose_locked(id, link.cause, false);
    }
  }
  announce(loss);
}

void ControlThread::process_event(std::uint64_t id) {
  std::optional<Loss> loss;
  ProcessToken peer;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = links_.find(id);
    if (found == links_.end() || !found->second.process) return;
    Link& link = found->second;
    peer = link.peer;
    if (link.state == Link::State::kLost) {
      // It lived on after its connection was lost, which its listeners know; now nothing can come from it any more.
      const std::scoped_lock lost_lock(listeners_mutex_);
      if (const auto lost = lost_.find(peer); lost != lost_.end()) lost->second.ended = true;
      unwatch(link.process->fd());
      links_.erase(found);
    } else {
      loss = lose_locked(id, how_it_ended(link.process->pid()), true);
    }
  }
  if (loss) {
    announce(loss);
  } else {
    hooks_.ended(peer);
  }
}

// The link's peer is gone. What is left of it is its pidfd as long as the process runs, for fence().
std::optional<ControlThread::Loss> ControlThread::lose_locked(std::uint64_t id, const std::string& cause, bool ended) {
  Link& link = links_.at(id);
  Loss loss{link.peer, {error(Code::kPeerLost, "{} {}", link.name, cause), ended}};
  link.endpoint->set_lost(loss.lost.why);
  link.endpoint.reset();
  link.state = Link::State::kLost;
  link.due = os::Deadline::never();
  if (link.socket) {
    unwatch(link.socket->fd());
    link.socket->shutdown();
    link.socket.reset();
  }
  if (link.process && ended) unwatch(link.process->fd());
  if (ended || !link.process) links_.erase(id);
  return loss;
}

}  // namespace hocket
