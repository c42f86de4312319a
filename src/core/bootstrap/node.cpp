// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/node.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/os/random.hpp"
#include "base/status.hpp"
#include "core/bootstrap/connect_root.hpp"
#include "core/bootstrap/root_address.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

constexpr auto kProofTime = 10s;
constexpr std::size_t kMostUnproven = 1024;
// After a rank's time ran out: for the others' word on who is missing.
constexpr auto kForTheReason = 5s;
// At the end: for what others still wait for.
constexpr auto kForTheOthers = 5s;

std::string hex_of(const Digest& digest, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += format("{:02x}", static_cast<unsigned>(digest[i]));
  return text;
}

os::UnixAddress meeting_place(const Secret& secret, std::string_view host) {
  const std::string_view label = "hocket host ";
  const Digest name = hmac_sha256(secret.bytes(), {std::as_bytes(std::span(label)), std::as_bytes(std::span(host))});
  return os::UnixAddress::abstract("hocket-meet-" + hex_of(name, 16));
}

std::string_view host_of(const os::Hello& hello) {
  return {hello.host.data(), ::strnlen(hello.host.data(), hello.host.size())};
}

}  // namespace

// ---- Callers ----

Node::Node(std::vector<UniqueId> roots, const Secret& secret, Settings settings, os::Hello hello, os::AbortFlag stop,
           os::UniqueFd wake)
    : roots_(std::move(roots)),
      secret_(secret),
      settings_(std::move(settings)),
      hello_(hello),
      stop_(std::move(stop)),
      wake_(std::move(wake)) {}

Result<std::shared_ptr<Node>> Node::of(std::span<const UniqueId> roots, const Settings& settings) {
  static std::mutex& mutex = *new std::mutex;
  static auto& nodes = *new std::map<std::string, std::weak_ptr<Node>>;
  if (roots.empty() || roots.size() > 64) {
    return error(Code::kInvalidArgument, "{} unique ids: a communicator needs 1 to 64", roots.size());
  }
  for (const UniqueId& id : roots) HOCKET_TRY(RootAddress::of(id).status());
  HOCKET_ASSIGN(const RootAddress first, RootAddress::of(roots.front()));
  const Secret secret(first.secret);
  HOCKET_ASSIGN(const os::Token token, os::random_token());
  HOCKET_ASSIGN(os::Hello hello, os::make_hello(kToRoot, token.low, -1));
  if (!settings.host_id.empty()) {
    hello.host = {};
    std::copy_n(settings.host_id.begin(), std::min(settings.host_id.size(), hello.host.size() - 1), hello.host.begin());
  }
  const std::string key = meeting_place(secret, settings.host_id).name;
  const std::lock_guard lock(mutex);
  std::erase_if(nodes, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Node>& known = nodes[key];
  if (auto node = known.lock(); node && !node->fork_mark_.forked()) {
    if (node->roots_.size() != roots.size() || !std::equal(roots.begin(), roots.end(), node->roots_.begin())) {
      return error(Code::kInvalidArgument, "ranks of this process were given other unique ids, or in another order");
    }
    return node;
  }
  HOCKET_ASSIGN(os::AbortFlag stop, os::AbortFlag::create());
  os::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_error(Code::kOutOfMemory, errno, "eventfd for a start (see ulimit -n)");
  std::shared_ptr<Node> node(
      new Node({roots.begin(), roots.end()}, secret, settings, hello, std::move(stop), std::move(wake)));
  known = node;
  return node;
}

Node::~Node() {
  if (!fork_mark_.forked()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake();
  }
  server_.join();
}

void Node::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
}

Node::Local* Node::find(Rank rank) {
  for (const auto& local : locals_)
    if (local->rank == rank) return local.get();
  return nullptr;
}

Status Node::join(Rank rank, int size, const os::WaitLimits& limits) {
  if (size < 1 || size > kMostRanks || rank < 0 || rank >= size) {
    return error(Code::kInvalidArgument, "rank {} of {}: a communicator has 1 to {} ranks, counted from 0", rank, size,
                 kMostRanks);
  }
  std::unique_lock lock(mutex_);
  if (!failed_.ok()) return failed_;
  if (closed_) {
    return error(Code::kInvalidArgument,
                 "rank {} came with a unique id whose {} ranks have met already: each communicator needs an id of its "
                 "own",
                 rank, size_);
  }
  if (size_ != 0 && size_ != size) {
    request_ = error(Code::kMismatch, "rank {} wants a communicator of {} ranks, rank {} one of {}, both in pid {}",
                     rank, size, locals_.front()->rank, size_, ::getpid());
    wake();
    return request_;
  }
  if (find(rank)) {
    request_ = error(Code::kInvalidArgument, "rank {} came twice, both times from pid {} on {}", rank, ::getpid(),
                     host_of(hello_));
    wake();
    return request_;
  }
  if (locals_.empty()) {
    size_ = size;
    hello_.rank = rank;
    first_deadline_ = limits.deadline;
    auto started = os::Thread::start("hocket-start", [this] { run(); });
    if (!started.ok()) return failed_ = started.status();
    server_ = std::move(*started);
  }
  locals_.push_back(std::make_unique<Local>());
  locals_.back()->rank = rank;
  locals_.back()->size = size;
  wake();
  return wait(lock, nullptr, rank, limits, "the other ranks to come");
}

Status Node::exchange(Rank rank, std::span<const std::byte> mine, std::span<std::byte> all,
                      const os::WaitLimits& limits) {
  if (fork_mark_.forked()) {
    return error(Code::kUnsupported, "this process was forked from rank {}: its connections stay with the rank itself",
                 rank);
  }
  if (all.size() != mine.size() * static_cast<std::size_t>(size_)) {
    return error(Code::kInvalidArgument, "rank {} exchanges {} bytes among {} ranks, but has room for {}", rank,
                 mine.size(), size_, all.size());
  }
  if (all.size() > FrameStream::kLarge / 2) {
    return error(Code::kInvalidArgument, "rank {} exchanges {} bytes, {} in all: at most {} are possible", rank,
                 mine.size(), all.size(), FrameStream::kLarge / 2);
  }
  std::unique_lock lock(mutex_);
  if (!failed_.ok()) return failed_;
  Local* local = find(rank);
  local->mine = mine;
  local->all = all;
  local->waiting = true;
  // The last one wakes the server: until then there is nothing to do.
  if (std::all_of(locals_.begin(), locals_.end(), [](const auto& l) { return l->waiting; })) wake();
  const Status status = wait(lock, local, rank, limits, "all ranks to take part in the exchange");
  local->waiting = false;
  return status;
}

Status Node::wait(std::unique_lock<std::mutex>& lock, Local* local, Rank rank, const os::WaitLimits& limits,
                  std::string_view what) {
  const auto begin = os::now_ns();
  const auto done = [&] { return !failed_.ok() || (local ? !local->waiting : ready_); };
  os::Deadline deadline = limits.deadline;
  bool asked = false;
  while (!done()) {
    if (limits.abort && limits.abort->raised()) {
      request_ = error(Code::kAborted, "rank {} was aborted while it waited for {}", rank, what);
      wake();
      return request_;
    }
    // An abort is a descriptor, of which there would be one for each rank to poll: it is looked at instead.
    os::Deadline next = deadline;
    if (limits.abort) next = std::min(next, os::Deadline::after(50ms));
    if (next.is_never()) {
      changed_.wait(lock);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(std::max<std::int64_t>(0, next.ns() - os::now_ns())));
    }
    if (done() || !deadline.passed()) continue;
    const double seconds = static_cast<double>(os::now_ns() - begin) / 1e9;
    if (asked) {
      failed_ = error(Code::kTimeout, "rank {} waited {:.1f} s for {}, and nobody knows why", rank, seconds, what);
      changed_.notify_all();
      break;
    }
    asked = true;
    deadline = os::Deadline::after(kForTheReason);
    if (!timed_out_) {
      timed_out_ = rank;
      timeout_text_ = format("rank {} waited {:.1f} s", rank, seconds);
      wake();
    }
  }
  return failed_;
}

BootstrapCounters Node::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

// ---- The serving thread ----

std::string Node::own_name() const {
  return format("rank {} on {}", hello_.rank, host_of(hello_));
}

void Node::run() {
  if (Status elected = elect(); !elected.ok()) fail(std::move(elected));
  os::Deadline end = os::Deadline::never();
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ && end.is_never()) end = os::Deadline::after(kForTheOthers);
    }
    if (!end.is_never() && (flushed() || end.passed())) break;
    serve_once();
  }
  stop_.raise();
  connector_.join();
}

Status Node::elect() {
  const os::UnixAddress place = meeting_place(secret_, settings_.host_id);
  std::string last;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return error(Code::kAborted, "{} went before all had come", own_name());
      if (!request_.ok()) return request_;
      if (timed_out_) {
        return error(Code::kTimeout, "{} found no leader on its host at {}: {}", own_name(), os::to_string(place),
                     last);
      }
    }
    auto listener = os::UnixListener::listen(place, 4096);
    if (listener.ok()) {
      near_.emplace(std::move(*listener));
      leader_ = true;
      break;
    }
    if (listener.status().code() != Code::kInvalidArgument) return listener.status();
    const os::WaitLimits limits{.deadline = os::Deadline::after(kProofTime), .abort = &stop_};
    auto socket = os::UnixSocket::connect(place, os::UnixSocket::IfAbsent::kFail, limits);
    if (socket.ok()) {
      HOCKET_TRY(socket->check_same_user());
      os::Hello mine = hello_;
      mine.purpose = kToLeader;
      os::UniqueFd fd(::fcntl(socket->fd(), F_DUPFD_CLOEXEC, 3));
      if (!fd) return system_error(Code::kOutOfMemory, errno, "a descriptor (see ulimit -n)");
      auto leader = os::shake_hands(fd.get(), os::Handshake::Role::kConnect, mine, secret_, limits);
      if (leader.ok()) {
        to_leader_.emplace(std::move(fd), *leader);
        to_leader_->set_limit(FrameStream::kLarge);
        to_leader_->set_counters(&frames_);
        return {};
      }
      if (leader.status().code() == Code::kMismatch) return leader.status();
      last = leader.status().text();
    } else {
      last = socket.status().text();
    }
    // The leader is about to listen, or has just gone.
    (void)os::sleep_until({.deadline = os::Deadline::after(5ms), .abort = &stop_});
  }
  HOCKET_ASSIGN(const os::InterfaceFilter filter, os::InterfaceFilter::parse(settings_.interfaces));
  HOCKET_ASSIGN(const os::PortRange ports, os::PortRange::parse(settings_.ports));
  HOCKET_ASSIGN(const std::vector<os::NetCandidate> candidates, os::usable_candidates(filter));
  std::vector<os::NetAddress> addresses;
  for (const os::NetCandidate& c : candidates) {
    if (c.reach == os::NetReach::kLoopback && !addresses.empty()) break;
    addresses.push_back(c.address);
  }
  HOCKET_ASSIGN(os::NetListener far, os::NetListener::listen(addresses, ports));
  far_.emplace(std::move(far));
  start_connecting();
  return {};
}

// The connector: to the root, and when all have come to one leader for each round.
void Node::start_connecting() {
  os::Deadline deadline = os::Deadline::never();
  {
    const std::lock_guard lock(mutex_);
    deadline = first_deadline_;
  }
  const bool meeting = stage_ == Stage::kMeeting;
  std::vector<LeaderCard> targets = targets_;
  // Which root: by this rank's number, so that each has its share of the hosts.
  const std::size_t index = static_cast<std::size_t>(hello_.rank) * roots_.size() / static_cast<std::size_t>(size_);
  auto started = os::Thread::start("hocket-connect", [this, meeting, targets, index, deadline] {
    const os::WaitLimits limits{.deadline = deadline, .abort = &stop_};
    const auto leave = [this](Result<FrameStream> stream) {
      const bool ok = stream.ok();
      const std::lock_guard lock(mutex_);
      connected_.push_back(std::move(stream));
      wake();
      return ok;
    };
    if (meeting) {
      leave(connect_to_root(roots_[index], hello_, own_name(), settings_.interfaces, limits));
      return;
    }
    for (const LeaderCard& card : targets)
      if (!leave(connect_to_leader(card, hello_, secret_, own_name(), settings_.interfaces, limits))) return;
  });
  if (!started.ok()) return fail(started.status());
  connector_ = std::move(*started);
  connecting_ = true;
}

void Node::serve_once() {
  std::vector<pollfd> all;
  os::Deadline wake_at = os::Deadline::never();
  const auto add = [&](const FrameStream& stream) {
    all.push_back({.fd = stream.fd(), .events = stream.events(), .revents = 0});
    if (!stream.proven()) wake_at = std::min(wake_at, stream.deadline());
  };
  all.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) wake_at = os::Deadline::after(10ms);
  }
  std::size_t listeners = all.size();
  if (leader_) {
    const bool accepting = accept_after_.passed();
    if (!accepting) wake_at = std::min(wake_at, accept_after_);
    if (accepting && near_) all.push_back({.fd = near_->fd(), .events = POLLIN, .revents = 0});
    if (accepting && far_)
      for (const int fd : far_->fds()) all.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  listeners = all.size() - listeners;
  // The order is that of `turns` below.
  std::vector<FrameStream*> streams;
  const auto use = [&](FrameStream& stream) {
    streams.push_back(&stream);
    add(stream);
  };
  if (to_leader_) use(*to_leader_);
  if (root_) use(*root_);
  for (auto& stream : to_)
    if (stream) use(*stream);
  for (auto& stream : from_)
    if (stream) use(*stream);
  for (Member& member : members_) use(member.stream);
  for (Newcomer& newcomer : newcomers_) use(newcomer.stream);

  const Status waited = os::poll_for(all, {.deadline = wake_at}, "ranks");
  if (!waited.ok() && waited.code() != Code::kTimeout) return fail(waited);
  if (all[0].revents) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
  }
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (all[1 + listeners + i].revents) streams[i]->turn();

  for (FrameStream* stream : streams)
    if (stream->proven() && stream->peer_error()) fail(status_of(*stream->peer_error()));
  look_at_callers();
  look_at_connections();
  if (to_leader_) handle_leader();
  if (root_) handle_root();
  for (Member& member : members_) handle_member(member);
  for (auto newcomer = newcomers_.begin(); newcomer != newcomers_.end();) handle_newcomer(newcomer++);
  if (leader_ && accept_after_.passed()) accept();
  progress();
  const std::lock_guard lock(mutex_);
  counters_.frames = frames_;
  counters_.leader = leader_;
  counters_.hosts = static_cast<int>(place_.hosts);
  counters_.rounds = static_cast<int>(rounds_done_);
}

// Looks at what ranks of this process want.
void Node::look_at_callers() {
  std::optional<Rank> timed_out;
  std::string text;
  {
    std::unique_lock lock(mutex_);
    if (!request_.ok() && failed_.ok()) {
      Status request = request_;
      lock.unlock();
      return fail(std::move(request));
    }
    if (!failed_.ok()) return;
    for (const auto& local : locals_) {
      if (local->announced) continue;
      local->announced = true;
      to_announce_.push_back(
          {.rank = local->rank, .size = local->size, .pid = static_cast<std::uint32_t>(::getpid()), .reserved = 0});
      own_ranks_.push_back(local->rank);
    }
    timed_out = timed_out_;
    text = timeout_text_;
  }
  announce();
  if (!timed_out || timeout_sent_) return;
  const auto bytes = std::as_bytes(std::span(text));
  const auto rank = static_cast<std::uint32_t>(*timed_out);
  if (to_leader_) {
    timeout_sent_ = true;
    to_leader_->send(FrameKind::kTimeout, rank, 0, bytes);
  } else if (stage_ == Stage::kMeeting) {
    // Without a connection the connector's own deadline ends the wait, with all that it tried.
    if (!root_) return;
    timeout_sent_ = true;
    root_->send(FrameKind::kTimeout, rank, 0, bytes);
  } else if (!(stage_ == Stage::kLinking && connecting_)) {
    fail(error(Code::kTimeout, "{} for {}", text, waiting_for()));
  }
}

void Node::announce() {
  FrameStream* to = to_leader_ ? &*to_leader_ : root_ ? &*root_ : nullptr;
  if (!to || to_announce_.empty()) return;
  std::vector<std::byte> bytes;
  while (!to_announce_.empty()) {
    append(bytes, to_announce_.front());
    to_announce_.pop_front();
    if (bytes.size() + sizeof(RankEntry) <= FrameStream::kSmall && !to_announce_.empty()) continue;
    to->send(FrameKind::kJoin, 0, 0, bytes);
    bytes.clear();
  }
}

// Takes what the connector has brought.
void Node::look_at_connections() {
  for (;;) {
    std::optional<Result<FrameStream>> next;
    {
      const std::lock_guard lock(mutex_);
      if (connected_.empty() || !failed_.ok()) return;
      next.emplace(std::move(connected_.front()));
      connected_.pop_front();
    }
    if (!next->ok()) return fail(next->status());
    FrameStream stream = std::move(**next);
    stream.set_counters(&frames_);
    if (stage_ == Stage::kMeeting) {
      connecting_ = false;
      root_.emplace(std::move(stream));
      LeaderCard card;
      card.token = hello_.token;
      auto network = os::network_identity();
      if (!network.ok()) return fail(network.status());
      card.network = *network;
      card.port = far_->port();
      card.rank = hello_.rank;
      card.host = hello_.host;
      for (const os::NetAddress& address : far_->addresses()) {
        if (card.address_count == LeaderCard::kMaxAddresses) break;
        card.addresses[card.address_count++] = address.bytes;
      }
      std::vector<std::byte> bytes;
      append(bytes, card);
      const auto index = static_cast<std::size_t>(hello_.rank) * roots_.size() / static_cast<std::size_t>(size_);
      if (index > 0) append(bytes, roots_.front().bytes);
      root_->send(FrameKind::kLeader, 0, 0, bytes);
      announce();
      continue;
    }
    const auto k = static_cast<std::size_t>(std::find(to_.begin(), to_.end(), std::nullopt) - to_.begin());
    to_[k].emplace(std::move(stream));
    to_[k]->send(FrameKind::kLink, static_cast<std::uint32_t>(k), 0, {});
    if (k + 1 == to_.size()) connecting_ = false;
  }
}

void Node::accept() {
  const auto make_room = [&] {
    if (newcomers_.empty()) return false;
    newcomers_.pop_front();  // the oldest
    return true;
  };
  const auto no_room = [&](const Status& why) {
    if (make_room()) return true;
    HOCKET_LOG(LogLevel::kWarn, "{} waits a moment: {}", own_name(), why.text());
    accept_after_ = os::Deadline::after(100ms);
    return false;
  };
  const auto add = [&](os::UniqueFd fd, bool local) {
    if (newcomers_.size() >= kMostUnproven) make_room();
    os::Hello mine = hello_;
    mine.purpose = local ? kToLeader : kBetweenLeaders;
    // A nonce is good for one connection.
    if (const Status status = os::random_bytes(mine.nonce); !status.ok()) return fail(status);
    newcomers_.push_back({FrameStream(std::move(fd), mine, secret_, os::Deadline::after(kProofTime)), local});
    newcomers_.back().stream.set_counters(&frames_);
  };
  for (int i = 0; near_ && i < 256; ++i) {
    os::UniqueFd fd(::accept4(near_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE) {
        if (!no_room(system_error(Code::kOutOfMemory, errno, "accept (see ulimit -n)"))) return;
        continue;
      }
      break;
    }
    add(std::move(fd), true);
  }
  for (int i = 0; far_ && i < 256; ++i) {
    auto connection = far_->accept_now();
    if (!connection.ok()) {
      if (!no_room(connection.status())) return;
      continue;
    }
    if (!*connection) break;
    add(std::move((*connection)->fd), false);
  }
}

void Node::handle_newcomer(std::list<Newcomer>::iterator newcomer) {
  FrameStream& stream = newcomer->stream;
  if (!stream.proven()) {
    if (stream.closed().ok() && !stream.deadline().passed()) return;
    HOCKET_LOG(stream.closed().code() == Code::kMismatch ? LogLevel::kWarn : LogLevel::kDebug,
               "{} turned somebody away: {}", own_name(),
               stream.closed().ok() ? "no proof came in time" : stream.closed().text());
    newcomers_.erase(newcomer);
    return;
  }
  if (newcomer->local) {
    members_.push_back({std::move(stream), {}, {}});
    members_.back().stream.set_limit(FrameStream::kLarge);
    newcomers_.erase(newcomer);
    {
      const std::lock_guard lock(mutex_);
      if (!failed_.ok()) members_.back().stream.send_error(failed_);
    }
    handle_member(members_.back());
    return;
  }
  const auto frame = stream.take();
  if (!frame) {
    if (!stream.closed().ok()) newcomers_.erase(newcomer);
    return;
  }
  // One may come before this host was welcomed: room for it is made as needed.
  const std::uint32_t k = frame->header.detail;
  if (frame->kind() != FrameKind::kLink || k >= rounds_of(kMostRanks) ||
      (stage_ != Stage::kMeeting && k >= place_.rounds)) {
    newcomers_.erase(newcomer);
    return;
  }
  if (from_.size() <= k) from_.resize(k + 1);
  if (!from_[k]) {
    from_[k].emplace(std::move(stream));
    from_[k]->set_limit(FrameStream::kLarge);
  }
  newcomers_.erase(newcomer);
}

void Node::handle_root() {
  while (root_) {
    const auto frame = root_->take();
    if (!frame) break;
    if (frame->kind() == FrameKind::kWelcome && stage_ == Stage::kMeeting) return welcome(*frame);
  }
  if (root_ && !root_->closed().ok()) {
    fail(error(Code::kPeerLost, "{} lost the root of the unique id before all had come: {}", own_name(),
               root_->closed().text()));
  }
}

void Node::welcome(const Frame& frame) {
  Reader reader(frame.bytes);
  bool good = reader.read(place_) && place_.hosts >= 1 && place_.hosts <= static_cast<std::uint32_t>(size_) &&
              place_.index < place_.hosts && place_.rounds == rounds_of(place_.hosts);
  for (auto* cards : {&targets_, &sources_}) {
    cards->resize(good ? place_.rounds : 0);
    for (LeaderCard& card : *cards) good = good && reader.read(card) && card.valid();
  }
  if (!good || reader.left() != 0) {
    return fail(error(Code::kMismatch, "the root welcomed {} with nonsense", own_name()));
  }
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  root_.reset();
  stage_ = Stage::kLinking;
  to_.resize(place_.rounds);
  from_.resize(place_.rounds);
  connector_.join();  // it has brought the root, and so has ended
  if (place_.rounds > 0) start_connecting();
}

void Node::handle_member(Member& member) {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.ok()) return;
  }
  while (!member.part) {
    auto frame = member.stream.take();
    if (!frame) break;
    switch (frame->kind()) {
      case FrameKind::kJoin: {
        Reader reader(frame->bytes);
        RankEntry entry;
        if (stage_ != Stage::kMeeting) {
          member.stream.send_error(error(Code::kInvalidArgument,
                                         "the ranks of this unique id have met already: each communicator needs an id "
                                         "of its own"));
          return;
        }
        while (reader.read(entry)) {
          member.ranks.push_back(entry);
          own_ranks_.push_back(entry.rank);
          to_announce_.push_back(entry);
        }
        announce();
        break;
      }
      case FrameKind::kPart: member.part = std::move(frame); break;
      case FrameKind::kTimeout:
        if (stage_ == Stage::kMeeting && root_) {
          root_->send(FrameKind::kTimeout, frame->header.detail, 0, frame->bytes);
        } else if (stage_ != Stage::kMeeting) {
          return fail(error(Code::kTimeout, "{} for {}", frame->text(), waiting_for()));
        }
        break;
      case FrameKind::kError: return fail(status_of(*frame));
      default:
        return fail(
            error(Code::kMismatch, "{} sent a frame of kind {}", member.stream.peer().name(), frame->header.kind));
    }
  }
}

void Node::handle_leader() {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.ok()) return;
  }
  while (auto frame = to_leader_->take()) {
    switch (frame->kind()) {
      case FrameKind::kReady: {
        const std::lock_guard lock(mutex_);
        closed_ = ready_ = true;
        stage_ = Stage::kRunning;
        sequence_ = 1;
        place_.hosts = frame->header.detail;
        changed_.notify_all();
        break;
      }
      case FrameKind::kWhole:
        if (frame->header.sequence != sequence_ || !part_sent_) {
          return fail(
              error(Code::kMismatch, "the leader sent exchange {} instead of {}", frame->header.sequence, sequence_));
        }
        deliver(frame->bytes);
        break;
      default: break;
    }
  }
  if (to_leader_->closed().ok()) return;
  std::unique_lock lock(mutex_);
  const bool needed = !ready_ || std::any_of(locals_.begin(), locals_.end(), [](const auto& l) { return l->waiting; });
  lock.unlock();
  if (needed)
    fail(error(Code::kPeerLost, "{} lost the leader of its host: {}", own_name(), to_leader_->closed().text()));
}

bool Node::linked() const {
  for (std::size_t k = 0; k < place_.rounds; ++k)
    if (!to_[k] || !from_[k]) return false;
  return true;
}

// ---- All-gathers ----

// Goes on with what is under way as far as it gets.
void Node::progress() {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.ok()) return;
  }
  if (to_leader_) {
    if (stage_ == Stage::kRunning && !part_sent_) (void)collect_own();
    return;
  }
  if (stage_ == Stage::kLinking && linked()) {
    stage_ = Stage::kRunning;
    std::sort(own_ranks_.begin(), own_ranks_.end());
  }
  if (!leader_ || stage_ == Stage::kMeeting) return;
  // A member that dies is missed when its part is.
  for (Member& member : members_) {
    if (member.stream.closed().ok() || member.part || member.ranks.empty()) continue;
    bool needed = stage_ != Stage::kRunning || sequence_ == 0 || own_known_;
    {
      const std::lock_guard lock(mutex_);
      needed = needed || std::any_of(locals_.begin(), locals_.end(), [](const auto& l) { return l->waiting; });
    }
    needed =
        needed || std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.part.has_value(); });
    if (!needed) continue;
    if (own_known_) continue;  // its part is in; it only misses the result
    std::vector<Rank> ranks;
    for (const RankEntry& entry : member.ranks) ranks.push_back(entry.rank);
    std::sort(ranks.begin(), ranks.end());
    return fail(error(Code::kPeerLost, "{} is lost: {}", name_ranks(ranks), member.stream.closed().text()));
  }
  if (stage_ != Stage::kRunning) return;
  while (collect_own()) {
    while (round_ < place_.rounds) {
      const auto held = static_cast<std::uint32_t>(blocks_.size());
      if (!round_sent_) {
        const std::uint32_t count = std::min(held, place_.hosts - held);
        std::vector<std::byte> bytes;
        for (std::uint32_t i = 0; i < count; ++i) {
          append(bytes,
                 BlockHead{.host = (place_.index + i) % place_.hosts, .reserved = 0, .bytes = blocks_[i].size()});
          bytes.insert(bytes.end(), blocks_[i].begin(), blocks_[i].end());
        }
        to_[round_]->send(FrameKind::kBlocks, round_, sequence_, bytes);
        round_sent_ = true;
        ++rounds_done_;
      }
      const auto frame = from_[round_]->take();
      if (!frame) {
        const FrameStream& in = *from_[round_];
        const FrameStream& out = *to_[round_];
        for (const auto& [stream, card] : {std::pair(&in, &sources_[round_]), std::pair(&out, &targets_[round_])}) {
          if (!stream->closed().ok() && (stream == &in || !round_sent_)) {
            return fail(error(Code::kPeerLost, "{} lost {}: {}", own_name(), card->name(), stream->closed().text()));
          }
        }
        return;
      }
      if (!take_blocks(*frame)) return;
      ++round_;
      round_sent_ = false;
    }
    finish();
    const std::lock_guard lock(mutex_);
    if (!failed_.ok()) return;
  }
}

// Whether this host's own block is there: all its ranks have given their parts. On a member: sends its part.
bool Node::collect_own() {
  if (own_known_) return true;
  if (leader_ && sequence_ == 0) {
    std::vector<std::byte> block;
    for (const Rank rank : own_ranks_) append(block, rank);
    blocks_.assign(1, std::move(block));
    return own_known_ = true;
  }
  // What each rank gave, by rank; only views.
  std::vector<std::pair<Rank, std::span<const std::byte>>> parts;
  std::unique_lock lock(mutex_);
  if (!failed_.ok()) return false;
  for (const auto& local : locals_) {
    if (!local->waiting) return false;
    parts.emplace_back(local->rank, local->mine);
  }
  if (!leader_) {
    const std::uint64_t each = parts.front().second.size();
    std::vector<std::byte> bytes;
    append(bytes, each);
    for (const auto& [rank, mine] : parts) {
      if (mine.size() != each) {
        lock.unlock();
        fail(error(Code::kMismatch, "rank {} exchanges {} bytes and rank {} {}: all must be equal", parts.front().first,
                   each, rank, mine.size()));
        return false;
      }
      append(bytes, static_cast<std::uint64_t>(rank));
      bytes.insert(bytes.end(), mine.begin(), mine.end());
    }
    part_sent_ = true;
    lock.unlock();
    to_leader_->send(FrameKind::kPart, 0, sequence_, bytes);
    return true;
  }
  for (const Member& member : members_) {
    if (member.ranks.empty()) continue;
    if (!member.part) return false;
  }
  for (const Member& member : members_) {
    if (member.ranks.empty()) continue;
    Reader reader(member.part->bytes);
    std::uint64_t each = 0;
    bool good = member.part->header.sequence == sequence_ && reader.read(each);
    for (std::size_t i = 0; good && i < member.ranks.size(); ++i) {
      std::uint64_t rank = 0;
      std::span<const std::byte> mine;
      good = reader.read(rank) && reader.read(each, mine) &&
             std::any_of(member.ranks.begin(), member.ranks.end(),
                         [&](const RankEntry& entry) { return static_cast<std::uint64_t>(entry.rank) == rank; });
      parts.emplace_back(static_cast<Rank>(rank), mine);
    }
    if (!good || reader.left() != 0) {
      lock.unlock();
      fail(error(Code::kMismatch,
                 "{} is at exchange {}, rank {} at {}: all ranks must make their communicators in the "
                 "same order",
                 member.stream.peer().name(), member.part->header.sequence, hello_.rank, sequence_));
      return false;
    }
  }
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::uint64_t each = parts.front().second.size();
  std::vector<std::byte> block;
  append(block, each);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [rank, mine] = parts[i];
    if (mine.size() != each || rank != own_ranks_[i]) {
      lock.unlock();
      fail(error(Code::kMismatch, "rank {} exchanges {} bytes and rank {} {}: all must be equal", parts.front().first,
                 each, rank, mine.size()));
      return false;
    }
    block.insert(block.end(), mine.begin(), mine.end());
  }
  lock.unlock();
  for (Member& member : members_) member.part.reset();
  blocks_.assign(1, std::move(block));
  return own_known_ = true;
}

bool Node::take_blocks(const Frame& frame) {
  const auto wrong = [&](std::string_view what) {
    fail(error(Code::kMismatch, "{} sent {} in round {} of exchange {}", sources_[round_].name(), what, round_,
               sequence_));
    return false;
  };
  if (frame.kind() != FrameKind::kBlocks || frame.header.detail != round_) return wrong("something else");
  if (frame.header.sequence != sequence_) return wrong(format("exchange {}", frame.header.sequence));
  const auto held = static_cast<std::uint32_t>(blocks_.size());
  const std::uint32_t count = std::min(held, place_.hosts - held);
  Reader reader(frame.bytes);
  for (std::uint32_t i = 0; i < count; ++i) {
    BlockHead head;
    std::span<const std::byte> bytes;
    if (!reader.read(head) || head.host != (place_.index + held + i) % place_.hosts || !reader.read(head.bytes, bytes))
      return wrong("blocks of other hosts");
    blocks_.emplace_back(bytes.begin(), bytes.end());
  }
  return reader.left() == 0 || wrong("more than its blocks");
}

// All blocks are there.
void Node::finish() {
  own_known_ = false;
  round_ = 0;
  if (sequence_ == 0) return finish_meeting();
  std::vector<std::byte> whole;
  std::uint64_t each = 0;
  std::memcpy(&each, blocks_[0].data(), sizeof each);
  whole.resize(each * static_cast<std::uint64_t>(size_));
  for (std::uint32_t i = 0; i < place_.hosts; ++i) {
    const std::vector<Rank>& ranks = host_ranks_[(place_.index + i) % place_.hosts];
    Reader reader(blocks_[i]);
    std::uint64_t theirs = 0;
    if (!reader.read(theirs) || theirs != each || reader.left() != each * ranks.size()) {
      return fail(error(Code::kMismatch, "rank {} exchanges {} bytes and rank {} {}: all must be equal",
                        host_ranks_[place_.index].front(), each, ranks.front(), theirs));
    }
    for (const Rank rank : ranks) {
      std::span<const std::byte> bytes;
      (void)reader.read(each, bytes);
      if (each != 0) std::memcpy(whole.data() + static_cast<std::uint64_t>(rank) * each, bytes.data(), each);
    }
  }
  blocks_.clear();
  for (Member& member : members_)
    if (!member.ranks.empty()) member.stream.send(FrameKind::kWhole, 0, sequence_, whole);
  deliver(whole);
}

// Gives the result to the ranks of this process.
void Node::deliver(std::span<const std::byte> whole) {
  const std::lock_guard lock(mutex_);
  ++sequence_;
  part_sent_ = false;
  ++counters_.exchanges;
  for (const auto& local : locals_) {
    if (!local->waiting) continue;
    if (local->all.size() != whole.size()) {
      failed_ = error(Code::kMismatch, "rank {} has room for {} bytes, {} came", local->rank, local->all.size(),
                      whole.size());
      break;
    }
    if (!whole.empty()) std::memcpy(local->all.data(), whole.data(), whole.size());
    local->waiting = false;
  }
  changed_.notify_all();
}

// The ranks of all hosts are known.
void Node::finish_meeting() {
  host_ranks_.assign(place_.hosts, {});
  std::vector<bool> seen(static_cast<std::size_t>(size_));
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < place_.hosts; ++i) {
    Reader reader(blocks_[i]);
    Rank rank = 0;
    while (reader.read(rank)) {
      if (rank < 0 || rank >= size_ || seen[static_cast<std::size_t>(rank)]) {
        return fail(error(Code::kInternal, "the hosts' lists have rank {} twice or out of range", rank));
      }
      seen[static_cast<std::size_t>(rank)] = true;
      host_ranks_[(place_.index + i) % place_.hosts].push_back(rank);
      ++count;
    }
  }
  if (count != static_cast<std::size_t>(size_)) {
    return fail(error(Code::kInternal, "the hosts' lists have {} ranks of {}", count, size_));
  }
  blocks_.clear();
  sequence_ = 1;
  for (Member& member : members_)
    if (!member.ranks.empty()) member.stream.send(FrameKind::kReady, place_.hosts, 0, {});
  const std::lock_guard lock(mutex_);
  ready_ = true;
  changed_.notify_all();
}

// ---- Failures ----

std::string Node::waiting_for() {
  if (stage_ == Stage::kMeeting) return "all ranks to come";
  if (stage_ == Stage::kLinking) {
    std::string text;
    for (std::size_t k = 0; k < place_.rounds; ++k)
      if (!from_[k]) text += format("{}{}", text.empty() ? "" : ", ", sources_[k].name());
    return text.empty() ? "connections of its own" : "a connection from " + text;
  }
  if (own_known_) return format("{} in exchange {}", sources_[round_].name(), sequence_);
  std::vector<Rank> missing;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& local : locals_)
      if (!local->waiting) missing.push_back(local->rank);
  }
  for (const Member& member : members_)
    if (!member.part)
      for (const RankEntry& entry : member.ranks) missing.push_back(entry.rank);
  std::sort(missing.begin(), missing.end());
  return missing.empty() ? format("exchange {}", sequence_)
                         : format("{} of its host in exchange {}", name_ranks(missing), sequence_);
}

// The first failure counts; it is told to everybody whom this process is connected with.
void Node::fail(Status status) {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_.ok()) return;
    failed_ = status;
    changed_.notify_all();
  }
  if (root_) root_->send_error(status);
  if (to_leader_) to_leader_->send_error(status);
  for (Member& member : members_) member.stream.send_error(status);
  for (auto* links : {&to_, &from_})
    for (auto& stream : *links)
      if (stream) stream->send_error(status);
}

bool Node::flushed() const {
  const auto done = [](const std::optional<FrameStream>& stream) { return !stream || stream->flushed(); };
  return done(to_leader_) && done(root_) && std::all_of(to_.begin(), to_.end(), done) &&
         std::all_of(from_.begin(), from_.end(), done) &&
         std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.stream.flushed(); });
}

}  // namespace hocket
