// SPDX-License-Identifier: Apache-2.0
// core/membership.cpp: how ranks become a communicator.
//
// After one that only tells whether there is a network between ranks, three all-gathers, by whatever exchange the
// caller has: members (who I am, what I was told to use), outcomes (whom I reach), places (where I run); one more where
// ranks have GPUs (core/agree_layout.hpp), or where something is wrong. After each, every rank looks at all entries in
// the same order and so comes to the same conclusion: an error on one rank is the error of all. Next stops:
// membership/messages.hpp, what is exchanged; membership/agreement.hpp, hosts.hpp, host_graph.hpp and costs.hpp, what
// is concluded from it.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"
#include "base/os/random.hpp"
#include "base/settings.hpp"
#include "base/status.hpp"
#include "core/agree_layout.hpp"
#include "core/communicator_state.hpp"
#include "core/membership/agreement.hpp"
#include "core/membership/costs.hpp"
#include "core/membership/exchange.hpp"
#include "core/membership/host_graph.hpp"
#include "core/membership/hosts.hpp"
#include "core/membership/messages.hpp"
#include "core/membership/slots.hpp"
#include "core/resolve_settings.hpp"
#include "core/tuning_file.hpp"
#include "topo/domains.hpp"
#include "topo/hash.hpp"

namespace hocket {
namespace {

using namespace membership;

/// Measures phases.
class Stopwatch {
 public:
  explicit Stopwatch(std::vector<Phase>& phases) : phases_(phases), since_(os::now_ns()) {}
  void lap(std::string name) {
    const std::int64_t now = os::now_ns();
    phases_.push_back({std::move(name), now - since_});
    since_ = now;
  }

 private:
  std::vector<Phase>& phases_;
  std::int64_t since_;
};

// One rank's way into a communicator, step by step; each of these but the first ends in an all-gather, and what goes
// wrong between two of them is told to the others, who would wait in vain.
class Founding {
 public:
  Founding(CreateArgs args, const SlotSizes& slots);
  Result<std::shared_ptr<CommunicatorState>> make();

 private:
  Status prepare();
  Status read_settings();
  Status take_block();
  void fill_block();
  Status meet(Status own);
  Status reach_peers();
  Status weigh(const Status& own);
  Status place();
  PlaceCard own_card();
  Status agree_on_layout();
  void open();
  void report() const;

  Status exchange_words(std::vector<Words>* words);

  const CreateArgs args_;
  EngineCore& engine_ = *args_.engine;
  const std::size_t n_ = static_cast<std::size_t>(args_.size);
  const BlockLayout layout_;
  const std::shared_ptr<CommunicatorState> state_;
  CommunicatorState& s_ = *state_;
  std::vector<Member>& members_ = s_.members;
  World& world_ = s_.world;
  Stopwatch watch_{s_.phases};
  /// Worlds up to some size connect all pairs at once.
  const bool eager_ = args_.size <= kEagerRanks;

  ExchangeClock clock_;
  Words words_;      // what went wrong here, for all
  Rank leader_ = 0;  // of this host
  Outcome outcome_;
  HostGraph graph_{engine_};
  LayoutInputs inputs_;
};

Founding::Founding(CreateArgs args, const SlotSizes& slots)
    : args_(std::move(args)),
      layout_(n_, slots.slots, slots.slot_bytes, args_.settings.flight_recorder_entries),
      state_(std::make_shared<CommunicatorState>(args_.engine, layout_)) {
  s_.settings = args_.settings;
  s_.rank = args_.rank;
  s_.size = args_.size;
  s_.lost.resize(n_);
  s_.parent = args_.parent;
  inputs_.rank = args_.rank;
}

Result<std::shared_ptr<CommunicatorState>> Founding::make() {
  Status own = prepare();
  watch_.lap("own memory");
  HOCKET_TRY(meet(std::move(own)));
  Status reached = reach_peers();
  watch_.lap("connections");
  if (reached.ok() && leader_ == args_.rank) reached = graph_.show(args_.settings, args_.rank, outcome_);
  watch_.lap("topology");
  HOCKET_TRY(weigh(reached));
  HOCKET_TRY(place());
  HOCKET_TRY(agree_on_layout());
  watch_.lap("exchange of outcomes and places");
  open();
  watch_.lap("channels");
  report();
  return state_;
}

// ---- Alone ----

Status Founding::prepare() {
  HOCKET_TRY(read_settings());
  HOCKET_TRY(take_block());
  fill_block();
  return {};
}

Status Founding::read_settings() {
  const Settings& settings = args_.settings;
  world_.tuner = settings.tuner;
  HOCKET_TRY(validate(settings));
  HOCKET_TRY(read_lists(settings, &world_));
  if (settings.tuner) HOCKET_TRY(check_tuner(*settings.tuner));
  if (args_.parent) {
    world_.tuning = args_.parent->world.tuning;
  } else if (!settings.tuning.empty()) {
    HOCKET_ASSIGN(world_.tuning, load_tuning(settings.tuning));
  }
  HOCKET_ASSIGN(s_.observer, engine_.observation().observe(settings, args_.rank, args_.size));
  return {};
}

Status Founding::take_block() {
  auto offset = engine_.arena().reserve(layout_.bytes, 4096);
  if (!offset.ok()) {
    return error(offset.status().code(), "a rank of {} needs {} MiB of addresses for its channels: {}", n_,
                 layout_.bytes >> 20, offset.status().text());
  }
  s_.block_offset = *offset;
  return Channels::commit_block(engine_.arena(), *offset, layout_);
}

void Founding::fill_block() {
  s_.channels = std::make_unique<Channels>(engine_.arena(), s_.block_offset, layout_, args_.rank, args_.first_transfer);
  BlockHeader& header = s_.block();
  header.bytes = layout_.bytes;
  header.rank = args_.rank;
  header.size = args_.size;
  header.pid = engine_.address().pid;
  header.slots = static_cast<std::uint32_t>(layout_.slots);
  header.slot_bytes = layout_.slot_bytes;
  header.records = layout_.records;
  put_text(header.host_name, get_text(engine_.address().host_name));
}

// ---- First: members ----

Status Founding::exchange_words(std::vector<Words>* words) {
  words->resize(n_);
  return exchange_all(args_.exchange, words_, words, "errors");
}

// `own`: what went wrong on this rank before.
Status Founding::meet(Status own) {
  const std::string settings = settings_text(args_.settings, world_);
  put_text(words_.settings, settings);
  put_text(words_.text, own.text());
  Member mine = member_of(s_, topo::hash_bytes(settings));
  mine.code = own.ok() ? 0 : static_cast<std::uint32_t>(own.code());
  members_.resize(n_);
  (void)clock_.begin();
  HOCKET_TRY(exchange_all(args_.exchange, mine, &members_, "addresses"));
  clock_.end(nullptr);
  watch_.lap("exchange of addresses");
  bool words_follow = false;
  if (Status checked = check_members(members_, args_.rank, &words_follow); !checked.ok())
    return own.ok() ? checked : own;
  if (words_follow) {
    std::vector<Words> words;
    HOCKET_TRY(exchange_words(&words));
    return own.ok() ? explain(members_, words) : own;
  }
  world_.hosts = number_hosts(&members_);
  leader_ = members_[static_cast<std::size_t>(args_.rank)].host;
  inputs_.host = host_numbers(members_);
  s_.exposed = n_ > 1;
  return {};
}

// ---- Second: outcomes ----

// Reach everybody, or in a large world this rank itself and its host's leader. Also after a failure everybody is
// tried: who waits for this rank would not learn otherwise that it need not wait.
Status Founding::reach_peers() {
  const os::WaitLimits limits{os::Deadline::after_or_never(args_.settings.start_timeout), args_.abort};
  outcome_.direct = world_.hosts == 1;
  fill_cpus(outcome_);
  if (args_.rank == 0) HOCKET_TRY(os::random_bytes(std::as_writable_bytes(std::span(&outcome_.id, 1))));
  Status reached;
  for (std::size_t d = 0; d < n_; ++d) {
    const auto r = static_cast<Rank>((static_cast<std::size_t>(args_.rank) + d) % n_);
    if (!eager_ && r != args_.rank && r != leader_) continue;
    if (Status status_of_one = s_.reach(r, limits, !eager_); !status_of_one.ok()) {
      if (reached.ok()) reached = std::move(status_of_one);
      continue;
    }
    if (s_.channels->peer(r).block == nullptr) outcome_.direct = 0;
  }
  return reached;
}

Status Founding::weigh(const Status& own) {
  if (!own.ok()) {
    outcome_.code = static_cast<std::uint32_t>(own.code());
    put_text(words_.text, own.text());
  }
  std::vector<Outcome> outcomes(n_);
  outcome_.times = clock_.begin();
  HOCKET_TRY(exchange_all(args_.exchange, outcome_, &outcomes, "outcomes"));
  clock_.end(&outcomes[0].times);
  const auto failed = std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.code != 0; });
  if (failed != outcomes.end()) {
    std::vector<Words> words;
    HOCKET_TRY(exchange_words(&words));
    return error(told_code(failed->code), "{}",
                 get_text(words[static_cast<std::size_t>(failed - outcomes.begin())].text));
  }
  s_.id = outcomes[0].id;
  inputs_.links = take_costs(s_, leader_, outcomes);
  const auto leader = static_cast<std::size_t>(leader_);
  graph_.read(members_[leader], s_.channels->peer(leader_), outcomes[leader]);
  return {};
}

// ---- Third: places ----

// Where this rank runs: the leader's graph, this rank's mask; and its GPU. What is wrong with that goes into the words.
PlaceCard Founding::own_card() {
  PlaceCard card{};
  card.place.host = engine_.address().host;
  card.place.process = engine_.address().token.low;
  if (graph_.get()) {
    auto allowed_cpus = topo::CpuSet::of_this_process();
    card.place = topo::place_of(*graph_.get(), engine_.address().host, engine_.address().token.low,
                                allowed_cpus.ok() ? *allowed_cpus : topo::CpuSet());
  }
  if (args_.settings.gpu.empty()) return card;
  graph_.read_here();  // the leader's is not to be had by loads: over tcp
  auto found = gpu_of(args_.settings.gpu, graph_.get().get(), local_place(inputs_.host, args_.rank));
  if (found.ok()) {
    card.gpu = *found;
    // Communicators that are made of this one: the same GPU, whatever the place there.
    if (args_.settings.gpu == "local") s_.settings.gpu = std::to_string(local_place(inputs_.host, args_.rank));
  } else {
    card.code = static_cast<std::uint32_t>(found.status().code());
    put_text(words_.text, found.status().text());
  }
  return card;
}

Status Founding::place() {
  PlaceCard mine = own_card();
  std::vector<PlaceCard> cards(n_);
  mine.times = clock_.begin();
  HOCKET_TRY(exchange_all(args_.exchange, mine, &cards, "places"));
  clock_.end(&cards[0].times);
  const auto failed = std::find_if(cards.begin(), cards.end(), [](const PlaceCard& card) { return card.code != 0; });
  if (failed != cards.end()) {
    std::vector<Words> words;
    HOCKET_TRY(exchange_words(&words));
    const auto r = static_cast<std::size_t>(failed - cards.begin());
    return error(told_code(failed->code), "rank {} on {}: {}", r, get_text(members_[r].address.host_name),
                 get_text(words[r].text));
  }
  if (eager_) {
    std::vector<topo::Place> places(n_);
    std::transform(cards.begin(), cards.end(), places.begin(), [](const PlaceCard& card) { return card.place; });
    s_.domains = topo::domains_of(places);
  }
  for (const PlaceCard& card : cards) inputs_.gpu.push_back(card.gpu);
  return {};
}

Status Founding::agree_on_layout() {
  inputs_.graph = graph_.get();
  inputs_.known = &engine_.host_layouts();
  HOCKET_ASSIGN(world_.layout, agree_layout(inputs_, [&](std::span<const std::byte> mine, std::span<std::byte> all) {
                  return exchange_bytes(args_.exchange, mine, all, "layouts");
                }));
  if (world_.layout) world_.layout_digest = world_.layout->digest();
  return {};
}

// ---- At the end ----

// From here on peers may call, read the block, and be missed.
void Founding::open() {
  s_.executor = std::make_unique<Executor>(*s_.channels, s_.fenced);
  auto& header = s_.block();
  header.communicator = s_.id;
  if (s_.observer) {
    // A host has one clock.
    const bool beside_rank_0 = members_[static_cast<std::size_t>(args_.rank)].host == members_[0].host;
    s_.observer->identify(s_.id, header.live, beside_rank_0 ? ClockBounds() : clock_.bounds());
  }
  header.magic = kBlockMagic;
  for (auto& entry : engine_.arena().header().blocks) {
    std::uint64_t free = 0;
    if (entry.compare_exchange_strong(free, s_.block_offset, std::memory_order_release)) break;
  }
  s_.made = true;
  std::weak_ptr<CommunicatorState> weak = state_;
  if (args_.parent) {
    const std::lock_guard lock(args_.parent->children_mutex);
    std::erase_if(args_.parent->children, [](const auto& child) { return child.expired(); });
    args_.parent->children.push_back(weak);
  }
  s_.loss_subscription = engine_.subscribe([weak](const ProcessToken& token, const Status& why) {
    if (auto alive = weak.lock()) alive->on_loss(token, why);
  });
}

void Founding::report() const {
  HOCKET_LOG(LogLevel::kInfo, "rank {} of {} is in communicator {:x}: {} host{}, {}{}, tuning {} ({:016x})", s_.rank,
             s_.size, s_.id, world_.hosts, world_.hosts == 1 ? "" : "s",
             world_.direct ? "all memory reachable" : "some peers reached by puts only",
             world_.crowded ? ", more ranks than cores" : "", tuning_of(world_).name(), tuning_of(world_).digest());
  if (world_.layout)
    HOCKET_LOG(LogLevel::kInfo, "rank {} of communicator {:x}: {} ({:016x})", s_.rank, s_.id, world_.layout->to_text(),
               world_.layout->digest());
}

}  // namespace

Result<std::shared_ptr<CommunicatorState>> make_communicator(CreateArgs args) {
  if (args.size < 1)
    return error(Code::kInvalidArgument, "a communicator of {} ranks: the size must be at least 1", args.size);
  if (args.rank < 0 || args.rank >= args.size)
    return error(Code::kInvalidArgument, "rank {} of {}: a rank must be from 0 to size - 1", args.rank, args.size);
  if (!args.exchange && args.size > 1)
    return error(Code::kInvalidArgument, "no exchange was given for {} ranks", args.size);
  if (args.size > kMostRanks)
    return error(Code::kUnsupported, "{} ranks: up to {} are supported", args.size, kMostRanks);
  if (args.engine->forked())
    return error(Code::kUnsupported,
                 "a forked child cannot use its parent's hocket: exec, or fork before the first call");
  args.engine->graveyard().sweep(args.engine->arena());
  HOCKET_ASSIGN(const bool network, over_network(args));
  const SlotSizes slots = slots_for(args.settings, static_cast<std::size_t>(args.size), network);
  return Founding(std::move(args), slots).make();
}

}  // namespace hocket
