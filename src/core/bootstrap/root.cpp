// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/root.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "base/log.hpp"
#include "base/os/net_socket.hpp"
#include "base/os/random.hpp"
#include "base/os/thread.hpp"
#include "base/status.hpp"
#include "core/bootstrap/connect_root.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/bootstrap/root_address.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

constexpr auto kProofTime = 10s;
// After a failure the root stays for a while, so that ranks that come later hear of it.
constexpr auto kStayAfterFailure = 600s;
constexpr std::size_t kMostUnproven = 4096;

class Root {
 public:
  Root(os::NetListener listener, const Secret& secret, const os::Hello& hello, os::UniqueFd wake,
       std::string interfaces)
      : listener_(std::move(listener)),
        secret_(secret),
        hello_(hello),
        wake_(std::move(wake)),
        interfaces_(std::move(interfaces)) {}

  void run();

 private:
  // One that connected: a leader, or a sub-root with many.
  struct Client {
    FrameStream stream;
    std::uint64_t number;  // tags what a sub-root forwards for it
    std::int64_t since_ns;
    bool relayed = false;  // what it says goes to the first root
    bool told = false;     // of a failure
    bool welcomed = false;
  };
  struct Leader {
    std::int32_t index;  // in leaders_
    Client* client;
    std::uint64_t tag;  // 0, or which of a sub-root's
    LeaderCard card;
    std::vector<Rank> ranks;
  };

  void accept();
  void handle(Client& client, const Frame& frame);
  void join(Leader& leader, const Frame& frame);
  void complete();
  void timed_out(const Frame& frame);
  void lost(Client& client);
  void lost_leader(const Leader& leader, std::string_view why);
  void fail(Status status);
  void relay(Client& client, const Frame& frame);
  void connect_upstream(const UniqueId& first);
  void handle_upstream();
  Leader* leader_of(const Client& client, std::uint64_t tag);

  os::NetListener listener_;
  Secret secret_;
  os::Hello hello_;
  os::UniqueFd wake_;
  std::string interfaces_;  // HOCKET_INTERFACE
  std::list<Client> clients_;
  std::uint64_t numbers_ = 0;
  std::size_t unproven_ = 0;
  os::Deadline accept_after_ = os::Deadline::at_ns(0);  // descriptors ran out: wait for some to be free
  os::Deadline end_ = os::Deadline::never();

  int size_ = 0;  // 0: nobody has come
  std::int32_t first_rank_ = 0;
  std::string first_name_;
  int arrived_ = 0;
  std::vector<std::int32_t> leader_of_rank_;  // -1: has not come
  std::vector<std::uint32_t> pid_of_rank_;
  std::vector<std::unique_ptr<Leader>> leaders_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Leader*> by_client_;  // its number and the tag
  bool complete_ = false;
  Status failed_;

  // Of a sub-root.
  struct Forward {
    FrameHeader header;
    std::vector<std::byte> bytes;
  };
  os::Thread connector_;
  std::vector<Forward> waiting_;  // until there is a connection
  std::optional<FrameStream> upstream_;
  bool upstream_lost_ = false;
  std::mutex mutex_;  // guards what the connector leaves:
  std::optional<FrameStream> connected_;
  Status connect_failed_;
};

void Root::run() {
  while (!end_.passed()) {
    // Who asks after a failure is told of it, too, and once is enough.
    for (Client& client : clients_) {
      if (failed_.ok() || client.told || !client.stream.proven()) continue;
      client.told = true;
      client.stream.send_error(failed_);
    }
    os::Deadline wake = end_;
    std::vector<pollfd> all;
    all.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
    all.push_back(
        {.fd = upstream_ ? upstream_->fd() : -1, .events = upstream_ ? upstream_->events() : short{0}, .revents = 0});
    const bool accepting = accept_after_.passed();
    if (!accepting) wake = std::min(wake, accept_after_);
    const std::vector<int> listening = listener_.fds();
    for (const int fd : listening) all.push_back({.fd = accepting ? fd : -1, .events = POLLIN, .revents = 0});
    const std::size_t first = all.size();
    for (const Client& client : clients_) {
      all.push_back({.fd = client.stream.fd(), .events = client.stream.events(), .revents = 0});
      if (!client.stream.proven()) wake = std::min(wake, client.stream.deadline());
    }
    const Status waited = os::poll_for(all, {.deadline = wake}, "ranks");
    if (!waited.ok() && waited.code() != Code::kTimeout) {
      HOCKET_LOG(LogLevel::kError, "the root of a unique id ended: {}", waited.text());
      return;
    }
    if (all[0].revents) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof count);
    }
    handle_upstream();
    std::size_t i = first;
    std::size_t unproven = 0;
    for (auto client = clients_.begin(); client != clients_.end();) {
      FrameStream& stream = client->stream;
      if (i < all.size() && all[i].revents) stream.turn();
      ++i;
      while (auto frame = stream.take()) handle(*client, *frame);
      // Also a relayed one's: the others that come here are told, and what the first root knows comes from there.
      if (stream.proven() && stream.peer_error() && !client->told) {
        client->told = true;
        if (client->relayed) relay(*client, *stream.peer_error());
        fail(status_of(*stream.peer_error()));
      }
      const bool late = !stream.proven() && stream.deadline().passed();
      if (!stream.closed().ok() || late) {
        if (stream.proven()) {
          lost(*client);
        } else {
          HOCKET_LOG(stream.closed().code() == Code::kMismatch ? LogLevel::kWarn : LogLevel::kDebug,
                     "the root of a unique id turned somebody away: {}",
                     late ? "no proof came in time" : stream.closed().text());
        }
        client = clients_.erase(client);
        continue;
      }
      unproven += !stream.proven();
      ++client;
    }
    unproven_ = unproven;
    if (accepting) accept();
    // Who was welcomed hangs up; hanging up first could cut off what it has not read yet.
    if (complete_ &&
        std::none_of(clients_.begin(), clients_.end(), [](const Client& client) { return client.stream.proven(); })) {
      return;
    }
  }
}

void Root::accept() {
  for (int i = 0; i < 64; ++i) {
    auto connection = listener_.accept_now();
    if (!connection.ok() || (*connection && unproven_ >= kMostUnproven)) {
      // The oldest that has not proven anything makes room.
      const auto oldest =
          std::find_if(clients_.begin(), clients_.end(), [](const Client& client) { return !client.stream.proven(); });
      if (oldest != clients_.end()) {
        clients_.erase(oldest);
        --unproven_;
      } else if (!connection.ok()) {
        HOCKET_LOG(LogLevel::kWarn, "the root of a unique id waits a moment: {}", connection.status().text());
        accept_after_ = os::Deadline::after(100ms);
        return;
      }
      if (!connection.ok()) continue;
    }
    if (!*connection) return;
    clients_.push_back({FrameStream(std::move((*connection)->fd), hello_, secret_, os::Deadline::after(kProofTime)),
                        ++numbers_, os::now_ns()});
    ++unproven_;
  }
}

Root::Leader* Root::leader_of(const Client& client, std::uint64_t tag) {
  const auto found = by_client_.find({client.number, tag});
  return found == by_client_.end() ? nullptr : found->second;
}

void Root::handle(Client& client, const Frame& frame) {
  if (!failed_.ok() || complete_) return;
  if (client.relayed) return relay(client, frame);
  const std::uint64_t tag = frame.header.sequence;
  Leader* leader = leader_of(client, tag);
  const auto wrong = [&](std::string_view what) {
    fail(error(Code::kMismatch, "{} told the root nonsense: {}", client.stream.peer().name(), what));
  };
  switch (frame.kind()) {
    case FrameKind::kLeader: {
      LeaderCard card;
      Reader reader(frame.bytes);
      if (leader || !reader.read(card) || !card.valid()) return wrong("a card");
      UniqueId first;
      if (reader.left() != 0 && tag == 0) {
        if (!reader.read(first.bytes) || reader.left() != 0) return wrong("the card of a first root");
        if (client.relayed = true; !upstream_ && !connector_.running()) connect_upstream(first);
        Frame plain = frame;
        plain.bytes.resize(sizeof card);
        return relay(client, plain);
      }
      auto fresh = std::make_unique<Leader>();
      fresh->index = static_cast<std::int32_t>(leaders_.size());
      fresh->client = &client;
      fresh->tag = tag;
      fresh->card = card;
      by_client_[{client.number, tag}] = fresh.get();
      leaders_.push_back(std::move(fresh));
      return;
    }
    case FrameKind::kJoin: return leader ? join(*leader, frame) : wrong("ranks without a card");
    case FrameKind::kTimeout: return timed_out(frame);
    case FrameKind::kGone:
      if (leader) lost_leader(*leader, frame.text());
      return;
    default: return wrong(format("a frame of kind {}", frame.header.kind));
  }
}

void Root::join(Leader& leader, const Frame& frame) {
  Reader reader(frame.bytes);
  RankEntry entry;
  while (reader.read(entry)) {
    const auto name = [](std::int32_t rank, std::uint32_t pid, const LeaderCard& card) {
      return format("rank {} (pid {} on {})", rank, pid, card.host.data());
    };
    if (size_ == 0) {
      if (entry.size < 1 || entry.size > kMostRanks) {
        return fail(error(Code::kInvalidArgument, "{} wants a communicator of {} ranks: 1 to {} are possible",
                          name(entry.rank, entry.pid, leader.card), entry.size, kMostRanks));
      }
      size_ = entry.size;
      first_rank_ = entry.rank;
      first_name_ = name(entry.rank, entry.pid, leader.card);
      leader_of_rank_.assign(static_cast<std::size_t>(size_), -1);
      pid_of_rank_.assign(static_cast<std::size_t>(size_), 0);
    }
    if (entry.size != size_) {
      return fail(error(Code::kMismatch, "{} wants a communicator of {} ranks, {} one of {}",
                        name(entry.rank, entry.pid, leader.card), entry.size, first_name_, size_));
    }
    if (entry.rank < 0 || entry.rank >= size_) {
      return fail(error(Code::kInvalidArgument, "{} cannot be in a communicator of {} ranks",
                        name(entry.rank, entry.pid, leader.card), size_));
    }
    const auto r = static_cast<std::size_t>(entry.rank);
    if (leader_of_rank_[r] >= 0) {
      const LeaderCard& other = leaders_[static_cast<std::size_t>(leader_of_rank_[r])]->card;
      return fail(error(Code::kInvalidArgument, "rank {} came twice: as pid {} on {} and as pid {} on {}", entry.rank,
                        pid_of_rank_[r], other.host.data(), entry.pid, leader.card.host.data()));
    }
    leader_of_rank_[r] = leader.index;
    pid_of_rank_[r] = entry.pid;
    leader.ranks.push_back(entry.rank);
    ++arrived_;
  }
  if (arrived_ == size_) complete();
}

void Root::complete() {
  // Hosts are numbered by their lowest rank.
  std::vector<Leader*> order;
  for (const auto& leader : leaders_)
    if (!leader->ranks.empty()) order.push_back(leader.get());
  for (Leader* leader : order) leader->card.rank = *std::min_element(leader->ranks.begin(), leader->ranks.end());
  std::sort(order.begin(), order.end(), [](Leader* a, Leader* b) { return a->card.rank < b->card.rank; });
  const auto hosts = static_cast<std::uint32_t>(order.size());
  for (std::uint32_t h = 0; h < hosts; ++h) {
    WelcomeHead head{.hosts = hosts, .index = h, .rounds = rounds_of(hosts)};
    std::vector<std::byte> bytes;
    append(bytes, head);
    for (std::uint32_t k = 0; k < head.rounds; ++k) append(bytes, order[(h + hosts - (1u << k)) % hosts]->card);
    for (std::uint32_t k = 0; k < head.rounds; ++k) append(bytes, order[(h + (1u << k)) % hosts]->card);
    order[h]->client->welcomed = true;
    order[h]->client->stream.send(FrameKind::kWelcome, 0, order[h]->tag, bytes);
  }
  complete_ = true;
  end_ = os::Deadline::after(kProofTime);  // for whoever does not take it
}

void Root::timed_out(const Frame& frame) {
  std::vector<Rank> missing;
  for (Rank r = 0; r < size_; ++r)
    if (leader_of_rank_[static_cast<std::size_t>(r)] < 0) missing.push_back(r);
  std::string came;
  int shown = 0;
  for (const auto& leader : leaders_) {
    if (leader->ranks.empty()) continue;
    if (++shown > 32) continue;
    std::sort(leader->ranks.begin(), leader->ranks.end());
    came += format("{}{} from {}", came.empty() ? "" : ", ", name_ranks(leader->ranks), leader->card.host.data());
  }
  if (shown > 32) came += format(", and from {} hosts more", shown - 32);
  fail(error(Code::kTimeout, "{} of {} {} not come ({}); here are {}", name_ranks(missing), size_,
             missing.size() == 1 ? "has" : "have", frame.text(), came.empty() ? "none" : came));
}

void Root::lost(Client& client) {
  const std::string why(client.stream.closed().text());
  if (client.relayed && client.welcomed) {
    complete_ = std::all_of(clients_.begin(), clients_.end(), [](const Client& c) { return !c.relayed || c.welcomed; });
    if (complete_) end_ = os::Deadline::after(kProofTime);
    return;
  }
  if (client.relayed) {
    const auto text = std::as_bytes(std::span(why));
    relay(client, {{static_cast<std::uint32_t>(FrameKind::kGone), 0, 0, text.size()}, {text.begin(), text.end()}});
    return;
  }
  for (const auto& leader : leaders_) {
    if (leader->client != &client) continue;
    lost_leader(*leader, why);
    leader->client = nullptr;  // it ends now; what was known of its ranks stays, for texts
  }
}

void Root::lost_leader(const Leader& leader, std::string_view why) {
  if (complete_ || !failed_.ok()) return;
  std::vector<Rank> ranks = leader.ranks;
  std::sort(ranks.begin(), ranks.end());
  fail(error(Code::kPeerLost, "{} of {} left before all {} had come: {}",
             ranks.empty() ? "a process" : name_ranks(ranks), leader.card.host.data(), size_, why));
}

void Root::fail(Status status) {
  if (!failed_.ok() || complete_) return;
  failed_ = std::move(status);
  end_ = os::Deadline::after(kStayAfterFailure);
}

// ---- A sub-root: hands all on ----

void Root::relay(Client& client, const Frame& frame) {
  FrameHeader header = frame.header;
  header.sequence = client.number;
  if (upstream_lost_) return;
  if (upstream_) {
    upstream_->send(frame.kind(), header.detail, header.sequence, frame.bytes);
  } else {
    waiting_.push_back({header, frame.bytes});
  }
}

void Root::connect_upstream(const UniqueId& first) {
  auto started = os::Thread::start("hocket-root-up", [this, first] {
    auto stream = connect_to_root(first, hello_, "a root of several", interfaces_,
                                  {.deadline = os::Deadline::after(kStayAfterFailure)});
    const std::lock_guard lock(mutex_);
    if (stream.ok()) {
      connected_ = std::move(*stream);
    } else {
      connect_failed_ = stream.status();
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  });
  if (!started.ok()) return fail(started.status());
  connector_ = std::move(*started);
}

void Root::handle_upstream() {
  if (upstream_lost_) return;
  if (!upstream_) {
    {
      const std::lock_guard lock(mutex_);
      if (!connect_failed_.ok()) fail(connect_failed_);
      if (connected_) upstream_ = std::move(connected_);
      connected_.reset();
      if (!upstream_ && connect_failed_.ok()) return;
    }
    connector_.join();  // it has said all, and so has ended
    if (!upstream_) return;
    for (const Forward& f : waiting_)
      upstream_->send(static_cast<FrameKind>(f.header.kind), f.header.detail, f.header.sequence, f.bytes);
    waiting_.clear();
  }
  upstream_->turn();
  if (upstream_->peer_error()) fail(status_of(*upstream_->peer_error()));
  while (auto frame = upstream_->take()) {
    for (Client& client : clients_) {
      if (client.number != frame->header.sequence) continue;
      client.welcomed |= frame->kind() == FrameKind::kWelcome;
      client.stream.send(frame->kind(), frame->header.detail, 0, frame->bytes);
    }
  }
  if (upstream_->closed().ok()) return;
  if (!complete_) fail(error(Code::kPeerLost, "the first root is lost: {}", upstream_->closed().text()));
  upstream_.reset();
  upstream_lost_ = true;
}

}  // namespace

Result<UniqueId> open_root(const Secret& secret, const Settings& settings, const RootOptions& options) {
  HOCKET_ASSIGN(const os::InterfaceFilter filter, os::InterfaceFilter::parse(settings.interfaces));
  HOCKET_ASSIGN(os::PortRange ports, os::PortRange::parse(settings.ports));
  if (!options.ports.any()) ports = options.ports;
  HOCKET_ASSIGN(const std::vector<os::NetCandidate> candidates, os::usable_candidates(filter));
  std::vector<os::NetAddress> addresses;
  for (const os::NetCandidate& c : candidates) {
    // Loopback only where there is nothing else: then all ranks are here.
    if (c.reach == os::NetReach::kLoopback && !addresses.empty()) break;
    addresses.push_back(c.address);
  }
  for (const os::NetAddress& extra : options.addresses) {
    if (std::none_of(addresses.begin(), addresses.end(), [&](const auto& a) { return a.bytes == extra.bytes; }))
      addresses.push_back(extra);
  }
  HOCKET_ASSIGN(os::NetListener listener, os::NetListener::listen(addresses, ports));
  RootAddress address;
  address.port = listener.port();
  HOCKET_ASSIGN(address.network, os::network_identity());
  for (const os::NetAddress& bound : listener.addresses()) {
    if (address.address_count == RootAddress::kMaxAddresses) break;
    address.addresses[address.address_count++] = bound.bytes;
  }
  std::copy(secret.bytes().begin(), secret.bytes().end(), address.secret.begin());
  HOCKET_ASSIGN(const os::Token token, os::random_token());
  HOCKET_ASSIGN(const os::Hello hello, os::make_hello(kToRoot, token.low, -1));
  os::UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return system_error(Code::kOutOfMemory, errno, "eventfd for a root (see ulimit -n)");
  auto root = std::make_shared<Root>(std::move(listener), secret, hello, std::move(wake), settings.interfaces);
  HOCKET_ASSIGN(os::Thread thread, os::Thread::start("hocket-root", [root] { root->run(); }));
  // It ends when all have come; nobody waits for it, and it must not keep the process.
  thread.detach();
  return address.to_id();
}

}  // namespace hocket
