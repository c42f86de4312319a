// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/node.hpp"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/os/random.hpp"
#include "base/status.hpp"
#include "core/bootstrap/election.hpp"
#include "core/bootstrap/host_leader.hpp"
#include "core/bootstrap/host_member.hpp"
#include "core/bootstrap/listen.hpp"
#include "core/bootstrap/root_address.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

// At the end: for what others still wait for.
constexpr auto kForTheOthers = 5s;

std::string_view host_of(const os::Hello& hello) {
  return {hello.host.data(), ::strnlen(hello.host.data(), hello.host.size())};
}

}  // namespace

// ---- For ranks ----

Node::Node(std::vector<UniqueId> roots, const Secret& secret, Settings settings, os::Hello hello, os::AbortFlag stop,
           os::Wake wake)
    : roots_(std::move(roots)),
      secret_(secret),
      settings_(std::move(settings)),
      hello_(hello),
      stop_(std::move(stop)),
      wake_(std::move(wake)),
      callers_(wake_, std::string(host_of(hello))) {}

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
  HOCKET_ASSIGN(os::Wake wake, os::Wake::create("a start"));
  std::shared_ptr<Node> node(
      new Node({roots.begin(), roots.end()}, secret, settings, hello, std::move(stop), std::move(wake)));
  known = node;
  return node;
}

Node::~Node() {
  if (!fork_mark_.forked()) {
    callers_.stop();
    wake_.wake();
  }
  server_.join();
}

Status Node::join(Rank rank, int size, const os::WaitLimits& limits) {
  return callers_.join(rank, size, limits, [this, rank]() -> Status {
    hello_.rank = rank;
    HOCKET_ASSIGN(server_, os::Thread::start("hocket-start", [this] { run(); }));
    return {};
  });
}

Status Node::exchange(Rank rank, std::span<const std::byte> mine, std::span<std::byte> all,
                      const os::WaitLimits& limits) {
  if (fork_mark_.forked()) {
    return error(Code::kUnsupported, "this process was forked from rank {}: its connections stay with the rank itself",
                 rank);
  }
  return callers_.exchange(rank, mine, all, limits);
}

// ---- The serving thread ----

std::string Node::own_name() const {
  return format("rank {} on {}", hello_.rank, host_of(hello_));
}

void Node::run() {
  if (Status taken = take_role(); !taken.ok()) fail(std::move(taken));
  os::Deadline end = os::Deadline::never();
  for (;;) {
    if (end.is_never() && callers_.stopping()) end = os::Deadline::after(kForTheOthers);
    if (!end.is_never() && (flushed() || end.passed())) break;
    serve_once();
  }
  stop_.raise();
  role_.reset();
}

Status Node::take_role() {
  const std::string name = own_name();
  HOCKET_ASSIGN(Elected elected, elect(secret_, settings_, hello_, name, callers_, stop_));
  if (elected.leader) {
    elected.leader->set_counters(&frames_);
    role_ = std::make_unique<HostMember>(callers_, name, std::move(*elected.leader));
    return {};
  }
  auto far = listen_on_this_host(settings_);
  const HostContext context{callers_, wake_, stop_, roots_, secret_, settings_, hello_, name, &frames_};
  auto leader = std::make_unique<HostLeader>(context, std::move(*elected.name),
                                             far.ok() ? std::optional(std::move(*far)) : std::nullopt);
  HostLeader& self = *leader;
  role_ = std::move(leader);
  HOCKET_TRY(far.status());
  return self.start();
}

void Node::serve_once() {
  if (Status turned = turn_connections(); !turned.ok()) fail(std::move(turned));
  if (Status request = callers_.request(); !request.ok()) fail(std::move(request));
  if (!role_) return;
  if (Status admitted = role_->admit(callers_.failure()); !admitted.ok()) fail(std::move(admitted));
  if (callers_.failure().ok()) {
    if (Status worked = role_->work(); !worked.ok()) fail(std::move(worked));
  }
  callers_.publish(frames_, role_->leads(), role_->hosts(), role_->rounds());
}

// Sleeps until there is something to do. Errors: those that others met and told, kSystem.
Status Node::turn_connections() {
  std::vector<pollfd> fds;
  os::Deadline wake_at = callers_.stopping() ? os::Deadline::after(10ms) : os::Deadline::never();
  fds.push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  std::vector<FrameStream*> streams;
  if (role_) {
    role_->listen(fds, wake_at);
    streams = role_->streams();
  }
  const std::size_t first = fds.size();
  for (const FrameStream* stream : streams) {
    fds.push_back({.fd = stream->fd(), .events = stream->events(), .revents = 0});
    if (!stream->proven()) wake_at = std::min(wake_at, stream->deadline());
  }
  const Status waited = os::poll_for(fds, {.deadline = wake_at}, "ranks");
  if (!waited.ok() && waited.code() != Code::kTimeout) return waited;
  if (fds[0].revents) wake_.clear();
  for (std::size_t i = 0; i < streams.size(); ++i)
    if (fds[first + i].revents) streams[i]->turn();
  for (const FrameStream* stream : streams)
    if (stream->proven() && stream->peer_error()) return status_of(*stream->peer_error());
  return {};
}

// The first failure counts; it is told to everybody whom this process is connected with.
void Node::fail(Status status) {
  if (callers_.fail(status) && role_) role_->tell(status);
}

}  // namespace hocket
