// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/root.hpp"

#include <poll.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "base/log.hpp"
#include "base/os/net_socket.hpp"
#include "base/os/random.hpp"
#include "base/os/thread.hpp"
#include "base/os/wake.hpp"
#include "base/status.hpp"
#include "core/bootstrap/listen.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/bootstrap/roll_call.hpp"
#include "core/bootstrap/root_address.hpp"
#include "core/bootstrap/upstream.hpp"

namespace hocket {
namespace {

using namespace std::chrono_literals;

constexpr auto kProofTime = 10s;
// After a failure the root stays for a while, so that ranks that come later hear of it.
constexpr auto kStayAfterFailure = 600s;
constexpr std::size_t kMostUnproven = 4096;

class Root {
 public:
  Root(os::NetListener listener, const Secret& secret, const os::Hello& hello, os::Wake wake, std::string interfaces)
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
    bool relayed = false;  // what it says goes to the first root
    bool told = false;     // of a failure
    bool welcomed = false;
  };
  // How a leader of the roll call is reached.
  struct Way {
    Client* client;     // null once it has gone
    std::uint64_t tag;  // 0, or which of a sub-root's
  };

  void accept();
  void handle(Client& client, const Frame& frame);
  void take_card(Client& client, const Frame& frame);
  void complete();
  void lost(Client& client);
  void lost_leader(std::size_t leader, std::string_view why);
  void hear_upstream();
  void fail(Status status);

  os::NetListener listener_;
  Secret secret_;
  os::Hello hello_;
  os::Wake wake_;
  std::string interfaces_;  // HOCKET_INTERFACE
  std::list<Client> clients_;
  std::uint64_t numbers_ = 0;
  std::size_t unproven_ = 0;
  os::Deadline accept_after_ = os::Deadline::at_ns(0);  // descriptors ran out: wait for some to be free
  os::Deadline end_ = os::Deadline::never();

  RollCall roll_;
  std::vector<Way> ways_;                                                   // by leader
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> leaders_;  // by a client's number and the tag
  bool complete_ = false;
  Status failed_;

  Upstream upstream_{wake_};  // of a sub-root
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
    all.push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
    all.push_back(upstream_.entry());
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
    if (all[0].revents) wake_.clear();
    hear_upstream();
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
        if (client->relayed) upstream_.send(client->number, *stream.peer_error());
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
    clients_.push_back(
        {FrameStream(std::move((*connection)->fd), hello_, secret_, os::Deadline::after(kProofTime)), ++numbers_});
    ++unproven_;
  }
}

void Root::handle(Client& client, const Frame& frame) {
  if (!failed_.ok() || complete_) return;
  if (client.relayed) return upstream_.send(client.number, frame);
  const auto leader = leaders_.find({client.number, frame.header.sequence});
  const bool known = leader != leaders_.end();
  const auto wrong = [&](std::string_view what) {
    fail(error(Code::kMismatch, "{} told the root nonsense: {}", client.stream.peer().name(), what));
  };
  switch (frame.kind()) {
    case FrameKind::kLeader: return known ? wrong("a card") : take_card(client, frame);
    case FrameKind::kJoin:
      if (!known) return wrong("ranks without a card");
      if (Status joined = roll_.join(leader->second, frame.bytes); !joined.ok()) return fail(std::move(joined));
      if (roll_.all_here()) complete();
      return;
    case FrameKind::kTimeout: return fail(roll_.missing(frame.text()));
    case FrameKind::kGone:
      if (known) lost_leader(leader->second, frame.text());
      return;
    default: return wrong(format("a frame of kind {}", frame.header.kind));
  }
}

// A leader says how it is reached; with the id of a first root, to which all goes then.
void Root::take_card(Client& client, const Frame& frame) {
  const std::uint64_t tag = frame.header.sequence;
  const auto wrong = [&](std::string_view what) {
    fail(error(Code::kMismatch, "{} told the root nonsense: {}", client.stream.peer().name(), what));
  };
  LeaderCard card;
  Reader reader(frame.bytes);
  if (!reader.read(card) || !card.valid()) return wrong("a card");
  if (reader.left() == 0 || tag != 0) {
    leaders_[{client.number, tag}] = roll_.add_leader(card);
    ways_.push_back({&client, tag});
    return;
  }
  UniqueId first;
  if (!reader.read(first.bytes) || reader.left() != 0) return wrong("the card of a first root");
  client.relayed = true;
  if (!upstream_.begun()) {
    if (Status begun = upstream_.begin(first, hello_, interfaces_, kStayAfterFailure); !begun.ok())
      fail(std::move(begun));
  }
  Frame plain = frame;
  plain.bytes.resize(sizeof card);
  upstream_.send(client.number, plain);
}

void Root::complete() {
  for (const RollCall::Welcome& welcome : roll_.welcomes()) {
    const Way& way = ways_[welcome.leader];
    way.client->welcomed = true;
    way.client->stream.send(FrameKind::kWelcome, 0, way.tag, welcome.bytes);
  }
  complete_ = true;
  end_ = os::Deadline::after(kProofTime);  // for whoever does not take it
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
    upstream_.send(client.number,
                   {{static_cast<std::uint32_t>(FrameKind::kGone), 0, 0, text.size()}, {text.begin(), text.end()}});
    return;
  }
  for (std::size_t leader = 0; leader < ways_.size(); ++leader) {
    if (ways_[leader].client != &client) continue;
    lost_leader(leader, why);
    ways_[leader].client = nullptr;  // it ends now; what was known of its ranks stays, for texts
  }
}

void Root::lost_leader(std::size_t leader, std::string_view why) {
  if (!complete_ && failed_.ok()) fail(roll_.left(leader, why));
}

void Root::fail(Status status) {
  if (!failed_.ok() || complete_) return;
  failed_ = std::move(status);
  end_ = os::Deadline::after(kStayAfterFailure);
}

// Of a sub-root: what the first root says to its leaders.
void Root::hear_upstream() {
  if (!upstream_.begun()) return;
  if (Status turned = upstream_.turn(); !turned.ok()) fail(std::move(turned));
  while (auto frame = upstream_.take()) {
    for (Client& client : clients_) {
      if (client.number != frame->header.sequence) continue;
      client.welcomed |= frame->kind() == FrameKind::kWelcome;
      client.stream.send(frame->kind(), frame->header.detail, 0, frame->bytes);
    }
  }
  if (Status lost = upstream_.check_lost(); !lost.ok()) fail(std::move(lost));
}

}  // namespace

Result<UniqueId> open_root(const Secret& secret, const Settings& settings, const RootOptions& options) {
  HOCKET_ASSIGN(os::NetListener listener, listen_on_this_host(settings, options.ports, options.addresses));
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
  HOCKET_ASSIGN(os::Wake wake, os::Wake::create("a root"));
  auto root = std::make_shared<Root>(std::move(listener), secret, hello, std::move(wake), settings.interfaces);
  HOCKET_ASSIGN(os::Thread thread, os::Thread::start("hocket-root", [root] { root->run(); }));
  // It ends when all have come; nobody waits for it, and it must not keep the process.
  thread.detach();
  return address.to_id();
}

}  // namespace hocket
