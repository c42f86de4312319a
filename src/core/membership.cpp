// SPDX-License-Identifier: Apache-2.0
// core/membership.cpp: how ranks become a communicator: create, split, shrink.
//
// Three all-gathers, by whatever exchange the caller has: cards (who I am, what I was told to use), outcomes (whom I
// reach), places (where I run). After each, every rank looks at all entries in the same order and so comes to the same
// conclusion: an error on one rank is the error of all.
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cstring>
#include <thread>

#include "base/log.hpp"
#include "base/os/membarrier.hpp"
#include "base/os/random.hpp"
#include "base/status.hpp"
#include "core/communicator_state.hpp"
#include "core/progress.hpp"
#include "topo/cost.hpp"
#include "topo/domains.hpp"

namespace hocket {
namespace {

constexpr std::uint64_t kCardMagic = 0x686f636b63617264;  // "hockcard"
constexpr std::uint32_t kCardVersion = 1;
constexpr std::size_t kMaskBytes = 256;

struct Card {
  std::uint64_t magic = kCardMagic;
  std::uint32_t version = kCardVersion;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint32_t code = 0;  ///< not 0: this rank could not even begin
  std::uint64_t block_offset = 0;
  std::uint64_t id = 0;  ///< rank 0's becomes the communicator's
  std::uint64_t settings_digest = 0;
  std::uint64_t algorithms = 0;  ///< how many there are, as a cheap check of equal builds
  ProcessAddress address;
  char settings[768] = {};
  char transports[128] = {};  ///< HOCKET_TRANSPORT: with other lists one rank would wait for what another rules out
  char text[256] = {};
  std::uint8_t cpus[kMaskBytes] = {};  ///< CPUs that the process may use, one bit each
  double quota = 0;
  std::uint64_t membarrier = 0;  ///< this process can make sleepers' bells seen (exec/waiter.hpp)
};

struct Outcome {
  std::uint32_t code = 0;
  std::uint32_t direct = 0;       ///< all peers' memory can be loaded and stored
  std::uint64_t cache_bytes = 0;  ///< leaders: the host's last-level cache
  double hop_seconds = 0;         ///< leaders: cost of a message between two ranks of the host, from its graph
  double bytes_per_second = 0;
  std::uint64_t graph_offset = 0;  ///< leaders: the host's graph as bytes in my arena
  std::uint64_t graph_bytes = 0;
  char text[512] = {};
};

struct PlaceCard {
  std::uint32_t code = 0;
  std::uint32_t unused = 0;
  topo::Place place;
  char text[128] = {};
};

template <std::size_t N>
void put_text(char (&to)[N], std::string_view text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}
template <std::size_t N>
std::string_view get_text(const char (&from)[N]) {
  return {from, ::strnlen(from, N)};
}
template <std::size_t N>
std::string_view get_text(const std::array<char, N>& from) {
  return {from.data(), ::strnlen(from.data(), N)};
}

template <class T>
Status exchange_all(const Exchange& exchange, const T& mine, std::vector<T>* all) {
  Status status;
  try {
    status = exchange(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(*all)));
  } catch (const std::exception& e) {
    status = error(Code::kSystem, "the caller's exchange threw: {}", e.what());
  } catch (...) {
    status = error(Code::kSystem, "the caller's exchange threw");
  }
  return status;
}

Code card_code(std::uint32_t code) {
  const auto c = static_cast<Code>(code);
  return to_string(c) == "unknown error" || c == Code::kOk ? Code::kInternal : c;
}

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

/// Cards of all ranks are what they should be, and no rank failed. The same answer on every rank, worded for this one.
Status check_cards(const std::vector<Card>& cards, Rank rank) {
  const Card& mine = cards[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < cards.size(); ++r) {
    const Card& c = cards[r];
    const std::string_view host = get_text(c.address.host_name);
    if (c.magic != kCardMagic || c.version != kCardVersion || c.algorithms != mine.algorithms)
      return error(Code::kMismatch, "rank {} on {} runs another version of hocket than rank {} (card {:x} version {})",
                   r, host, rank, c.magic, c.version);
    if (c.rank != static_cast<std::int32_t>(r))
      return error(Code::kInvalidArgument, "the exchange put rank {} at place {}: ranks must be passed as they are",
                   c.rank, r);
    if (c.size != static_cast<std::int32_t>(cards.size()))
      return error(Code::kMismatch, "rank {} on {} wants a communicator of {} ranks, rank {} one of {}", r, host,
                   c.size, rank, cards.size());
    if (c.code != 0) return error(card_code(c.code), "rank {} on {}: {}", r, host, get_text(c.text));
    if (c.address.magic != kAddressMagic) return error(Code::kMismatch, "rank {} sent a bad address", r);
  }
  for (std::size_t r = 1; r < cards.size(); ++r) {
    if (cards[r].settings_digest == cards[0].settings_digest) continue;
    const auto a = agreed_settings_from_text(get_text(cards[0].settings));
    const auto b = agreed_settings_from_text(get_text(cards[r].settings));
    const std::string what = a.ok() && b.ok() ? describe_difference(*a, *b, "on rank 0", format("on rank {}", r))
                                              : std::string("settings differ");
    return error(Code::kMismatch, "ranks must agree: {}", what);
  }
  for (std::size_t r = 1; r < cards.size(); ++r)
    if (get_text(cards[r].transports) != get_text(cards[0].transports))
      return error(Code::kMismatch, "ranks must agree: HOCKET_TRANSPORT is '{}' on rank 0 and '{}' on rank {}",
                   get_text(cards[0].transports), get_text(cards[r].transports), r);
  return {};
}

Status add_context(Status status, std::string_view context) {
  if (status.ok()) return status;
  return Status(status.code(), format("{}: {}", context, status.text()));
}

/// All slots that a rank receives on together should not fit the cache of one core (1 MiB and more): lines that the
/// reader's cache still holds are several times slower to write again than those that have moved on to the shared
/// cache.
std::uint64_t slots_for(const Settings& settings, std::size_t ranks) {
  if (settings.slots >= 2 && (settings.slots & (settings.slots - 1)) == 0)
    return static_cast<std::uint64_t>(settings.slots);
  return ranks <= 2 ? 16 : ranks <= 4 ? 8 : 4;
}

void fill_card(Card& card, const CreateArgs& args) {
  card.rank = args.rank;
  card.size = args.size;
  card.algorithms = algorithms().size();
  card.settings_digest = digest(args.settings);
  put_text(card.settings, agreed_settings_to_text(args.settings));
  put_text(card.transports, args.settings.transport);
  std::vector<std::string> notes;
  const topo::CpuBudget budget = topo::read_cpu_budget("", &notes);
  for (const int cpu : budget.allowed.to_vector())
    if (cpu < static_cast<int>(kMaskBytes * 8)) card.cpus[cpu / 8] |= static_cast<std::uint8_t>(1u << (cpu % 8));
  card.quota = budget.quota_cpus;
  card.membarrier = os::register_membarrier();
}

/// Ranks of the same host get the same number, by lowest rank.
void number_hosts(const std::vector<Card>& cards, std::vector<Member>* members) {
  for (std::size_t r = 0; r < cards.size(); ++r) {
    int host = static_cast<int>(r);
    for (std::size_t q = 0; q < r; ++q)
      if (get_text(cards[q].address.host_id) == get_text(cards[r].address.host_id)) {
        host = (*members)[q].host;
        break;
      }
    (*members)[r].host = host;
  }
}

/// More ranks than CPUs that they may use together, on the host of `rank`.
bool is_crowded(const std::vector<Card>& cards, const std::vector<Member>& members, std::size_t rank) {
  std::bitset<kMaskBytes * 8> cpus;
  int ranks = 0;
  double quota = 0;
  for (std::size_t r = 0; r < cards.size(); ++r) {
    if (members[r].host != members[rank].host) continue;
    ++ranks;
    for (std::size_t i = 0; i < kMaskBytes * 8; ++i)
      if (cards[r].cpus[i / 8] & (1u << (i % 8))) cpus.set(i);
    if (cards[r].quota > 0) quota = quota == 0 ? cards[r].quota : std::min(quota, cards[r].quota);
  }
  double usable = static_cast<double>(cpus.count());
  if (quota > 0) usable = std::min(usable, quota);
  return static_cast<double>(ranks) > usable;
}

}  // namespace

Result<std::shared_ptr<CommunicatorState>> make_communicator(CreateArgs args) {
  if (args.size < 1)
    return error(Code::kInvalidArgument, "a communicator of {} ranks: the size must be at least 1", args.size);
  if (args.rank < 0 || args.rank >= args.size)
    return error(Code::kInvalidArgument, "rank {} of {}: a rank must be from 0 to size - 1", args.rank, args.size);
  if (!args.exchange && args.size > 1)
    return error(Code::kInvalidArgument, "no exchange was given for {} ranks", args.size);
  if (static_cast<std::size_t>(args.size) > MeetingPage::kMaxRanks)
    return error(Code::kUnsupported, "{} ranks: up to {} are supported", args.size, MeetingPage::kMaxRanks);
  if (args.engine->forked())
    return error(Code::kUnsupported,
                 "a forked child cannot use its parent's hocket: exec, or fork before the first call");
  EngineCore& engine = *args.engine;
  engine.graveyard().sweep(engine.arena());

  const auto n = static_cast<std::size_t>(args.size);
  const BlockLayout layout(n, slots_for(args.settings, n), args.settings.slot_bytes,
                           args.settings.flight_recorder_entries);
  auto state = std::make_shared<CommunicatorState>(args.engine, layout);
  Stopwatch watch(state->phases);
  state->settings = args.settings;
  state->rank = args.rank;
  state->size = args.size;
  state->lost.resize(n);
  state->members.resize(n);

  // My block. What goes wrong from here on is told to the others, who would wait for me in vain.
  Card card;
  Status mine = validate(args.settings);
  if (mine.ok()) {
    const auto algorithm_list = algorithm_names();
    const auto protocol_list = protocol_names();
    auto a = AllowList::parse(args.settings.algo, algorithm_list, "HOCKET_ALGO");
    auto p = AllowList::parse(args.settings.proto, protocol_list, "HOCKET_PROTO");
    if (!a.ok()) mine = a.status();
    if (!p.ok()) mine = p.status();
    if (a.ok() && p.ok()) {
      state->world.algorithms = *a;
      state->world.protocols = *p;
    }
  }
  Arena& arena = engine.arena();
  if (mine.ok()) {
    auto offset = arena.reserve(layout.bytes, 4096);
    if (offset.ok()) {
      state->block_offset = *offset;
      mine = arena.commit(*offset, layout.packets_at);
    } else {
      mine = error(offset.status().code(),
                   "a rank of {} needs {} MiB of addresses for its slots (HOCKET_SLOTS={}, HOCKET_SLOT_BYTES={}): {}",
                   n, layout.bytes >> 20, layout.slots, layout.slot_bytes, offset.status().text());
    }
  }
  fill_card(card, args);
  card.address = engine.address();
  card.block_offset = state->block_offset;
  if (!mine.ok()) {
    card.code = static_cast<std::uint32_t>(mine.code());
    put_text(card.text, mine.text());
  } else {
    auto& header = *reinterpret_cast<BlockHeader*>(arena.base() + state->block_offset);
    header.bytes = layout.bytes;
    header.rank = args.rank;
    header.size = args.size;
    header.pid = engine.address().pid;
    header.slots = static_cast<std::uint32_t>(layout.slots);
    header.slot_bytes = layout.slot_bytes;
    header.records = layout.records;
    put_text(header.host_name, get_text(engine.address().host_name));
  }
  if (args.rank == 0) {
    HOCKET_TRY(os::random_bytes(std::as_writable_bytes(std::span(&card.id, 1))));
  }
  watch.lap("own memory");

  std::vector<Card> cards(n);
  if (n == 1) {
    cards[0] = card;
  } else {
    HOCKET_TRY(add_context(exchange_all(args.exchange, card, &cards), "exchanging addresses"));
  }
  watch.lap("exchange of addresses");
  if (Status checked = check_cards(cards, args.rank); !checked.ok()) return mine.ok() ? checked : mine;
  state->id = cards[0].id;
  for (std::size_t r = 0; r < n; ++r) {
    state->members[r].address = cards[r].address;
    state->members[r].block_offset = cards[r].block_offset;
  }
  number_hosts(cards, &state->members);

  // Reach everybody.
  const os::WaitLimits limits{os::Deadline::after_or_never(args.settings.start_timeout), args.abort};
  const std::string_view transports[] = {"local", "shm"};
  Outcome outcome;
  Status reached;
  AllowList allowed;
  if (auto list = AllowList::parse(args.settings.transport, transports, "HOCKET_TRANSPORT"); list.ok()) {
    allowed = *list;
  } else {
    reached = list.status();
  }
  std::vector<PeerView> peers(n);
  outcome.direct = 1;
  // Also after a failure everybody is tried: who waits for this rank would not learn otherwise that it need not wait.
  const bool may_try = reached.ok();
  for (std::size_t d = 0; d < n && may_try; ++d) {
    const std::size_t r = (static_cast<std::size_t>(args.rank) + d) % n;
    Member& member = state->members[r];
    auto endpoint = engine.connect(member.address, allowed, limits, &member.trials);
    if (!endpoint.ok()) {
      if (reached.ok())
        reached = Status(endpoint.status().code(),
                         format("rank {} cannot reach rank {} (pid {} on {}): {}", args.rank, r, member.address.pid,
                                get_text(member.address.host_name), endpoint.status().text()));
      continue;
    }
    PeerView& view = peers[r];
    view.endpoint = *endpoint;
    view.block_offset = member.block_offset;
    if (member.block_offset % 4096 != 0 || member.block_offset + layout.bytes > member.address.arena_bytes) {
      reached = error(Code::kMismatch, "rank {} sent a block outside of its memory", r);
      break;
    }
    if (std::byte* base = view.endpoint->base()) {
      view.arena = base;
      view.block = base + member.block_offset;
      view.header = reinterpret_cast<ArenaHeader*>(base);
      view.doorbell = &view.block_header()->doorbell;
    } else {
      outcome.direct = 0;
    }
  }
  watch.lap("connections");

  // The leader of a host shows its view of the machine to the others there.
  const Rank leader = state->members[static_cast<std::size_t>(args.rank)].host;
  std::uint64_t graph_offset = 0;
  std::shared_ptr<const topo::Graph> graph;
  if (reached.ok() && leader == args.rank) {
    if (auto machine = engine.machine(); machine.ok()) {
      graph = *machine;
      outcome.cache_bytes = graph->l3_bytes();
      const topo::LinkCost cost = topo::link_cost(*graph, topo::LinkKind::kShm);
      outcome.hop_seconds = cost.alpha_seconds;
      outcome.bytes_per_second = cost.beta_bytes_per_second;
      const std::string bytes = graph->to_bytes();
      if (auto offset = arena.reserve(bytes.size(), 4096); offset.ok()) {
        graph_offset = *offset;
        if (arena.commit(graph_offset, bytes.size()).ok()) {
          std::memcpy(arena.base() + graph_offset, bytes.data(), bytes.size());
          outcome.graph_offset = graph_offset;
          outcome.graph_bytes = bytes.size();
        }
      }
    } else {
      HOCKET_LOG(LogLevel::kWarn, "rank {} cannot read the machine's topology: {}", args.rank, machine.status().text());
    }
  }
  watch.lap("topology");
  if (!reached.ok()) {
    outcome.code = static_cast<std::uint32_t>(reached.code());
    put_text(outcome.text, reached.text());
  }
  state->exposed = n > 1;
  // Shown only until the others have read it, whatever happens.
  struct ShownGraph {
    Arena& arena;
    std::uint64_t& offset;
    ~ShownGraph() {
      if (offset != 0) arena.release(offset);
    }
  } shown_graph{arena, graph_offset};
  std::vector<Outcome> outcomes(n);
  if (n == 1) {
    outcomes[0] = outcome;
  } else {
    HOCKET_TRY(add_context(exchange_all(args.exchange, outcome, &outcomes), "exchanging outcomes"));
  }
  for (std::size_t r = 0; r < n; ++r)
    if (outcomes[r].code != 0) return error(card_code(outcomes[r].code), "{}", get_text(outcomes[r].text));

  // What all ranks may base a choice on.
  World& world = state->world;
  world.size = args.size;
  world.slots = layout.slots;
  world.slot_bytes = layout.slot_bytes;
  world.tile_bytes = args.settings.tile_bytes;
  world.lanes = args.settings.lanes;
  world.direct = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.direct != 0; });
  world.hosts = 0;
  std::uint64_t cache = 0;
  for (std::size_t r = 0; r < n; ++r) {
    if (state->members[r].host == static_cast<int>(r)) {
      ++world.hosts;
      // The slowest host's figures count for all.
      if (outcomes[r].hop_seconds > 0) world.hop_seconds = std::max(world.hop_seconds, outcomes[r].hop_seconds);
      if (outcomes[r].bytes_per_second > 0)
        world.seconds_per_byte = std::max(world.seconds_per_byte, 1 / outcomes[r].bytes_per_second);
      if (outcomes[r].cache_bytes != 0)
        cache = cache == 0 ? outcomes[r].cache_bytes : std::min(cache, outcomes[r].cache_bytes);
    }
    world.crowded |= is_crowded(cards, state->members, r);
  }
  if (cache != 0) world.cache_bytes = cache;
  // A fence at each signal, or one at each sleep: the latter where ranks seldom sleep and all of the host can.
  state->fenced =
      world.crowded || !std::all_of(cards.begin(), cards.end(), [](const Card& c) { return c.membarrier != 0; });
  state->wait_policy.fenced = state->fenced;
  state->wait_policy.crowded = is_crowded(cards, state->members, static_cast<std::size_t>(args.rank));
  if (args.settings.spin)
    state->wait_policy.spin_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(*args.settings.spin).count();

  // Where everybody runs: the leader's graph, this rank's mask.
  PlaceCard place;
  if (!graph) {
    const Outcome& of_leader = outcomes[static_cast<std::size_t>(leader)];
    const PeerView& view = peers[static_cast<std::size_t>(leader)];
    if (of_leader.graph_bytes != 0 && view.arena != nullptr &&
        of_leader.graph_offset + of_leader.graph_bytes <=
            state->members[static_cast<std::size_t>(leader)].address.arena_bytes) {
      const auto* bytes = reinterpret_cast<const char*>(view.arena + of_leader.graph_offset);
      if (auto parsed = topo::Graph::from_bytes(std::string(bytes, of_leader.graph_bytes)); parsed.ok()) {
        graph = std::make_shared<const topo::Graph>(std::move(*parsed));
        engine.set_machine(graph);
      }
    }
  }
  if (graph) {
    auto allowed_cpus = topo::CpuSet::of_this_process();
    place.place = topo::place_of(*graph, get_text(engine.address().host_id), engine.address().token.low,
                                 allowed_cpus.ok() ? *allowed_cpus : topo::CpuSet());
  }
  std::vector<PlaceCard> places(n);
  if (n == 1) {
    places[0] = place;
  } else if (Status status = exchange_all(args.exchange, place, &places); !status.ok()) {
    return add_context(std::move(status), "exchanging places");
  }
  std::vector<topo::Place> bare(n);
  for (std::size_t r = 0; r < n; ++r) bare[r] = places[r].place;
  state->domains = topo::domains_of(bare);
  watch.lap("exchange of outcomes and places");

  HOCKET_ASSIGN(state->channels,
                Channels::create(arena, state->block_offset, layout, args.rank, std::move(peers), args.first_transfer));
  state->executor = std::make_unique<Executor>(*state->channels, state->fenced);
  auto& header = state->block();
  header.communicator = state->id;
  header.magic = kBlockMagic;
  for (auto& entry : arena.header().blocks) {
    std::uint64_t free = 0;
    if (entry.compare_exchange_strong(free, state->block_offset, std::memory_order_release)) break;
  }
  std::weak_ptr<CommunicatorState> weak = state;
  state->loss_subscription = engine.subscribe([weak](const ProcessToken& token, const Status& why) {
    if (auto alive = weak.lock()) alive->on_loss(token, why);
  });
  watch.lap("channels");
  HOCKET_LOG(LogLevel::kInfo, "rank {} of {} is in communicator {:x}: {} host{}, {}{}", state->rank, state->size,
             state->id, world.hosts, world.hosts == 1 ? "" : "s",
             world.direct ? "all memory reachable" : "some peers reached by puts only",
             world.crowded ? ", more ranks than cores" : "");
  return state;
}

Result<Communicator> Communicator::split(int color, int key) {
  if (!state_) return error(Code::kInvalidArgument, "split of a communicator that was moved from");
  struct Wish {
    std::int32_t color, key;
  };
  const Wish mine{color, key};
  std::vector<Wish> all(static_cast<std::size_t>(size()));
  HOCKET_TRY(all_gather(&mine, all.data(), 1, DataType::kInt64));

  std::vector<Rank> group;  // ranks of this communicator, in the new order
  if (color >= 0)
    for (Rank r = 0; r < size(); ++r)
      if (all[static_cast<std::size_t>(r)].color == color) group.push_back(r);
  std::stable_sort(group.begin(), group.end(), [&](Rank a, Rank b) {
    return all[static_cast<std::size_t>(a)].key < all[static_cast<std::size_t>(b)].key;
  });

  // This communicator's all-gather carries the exchange. Every rank takes part in every exchange, whatever its group
  // does, so that calls match: those that are not in a group or whose creation failed send empty entries for the rest.
  static_assert(sizeof(Card) % 8 == 0 && sizeof(Outcome) % 8 == 0 && sizeof(PlaceCard) % 8 == 0);
  constexpr std::size_t kSizes[] = {sizeof(Card), sizeof(Outcome), sizeof(PlaceCard)};
  std::size_t exchanges = 0;
  const Exchange exchange = [&](std::span<const std::byte> bytes, std::span<std::byte> out) -> Status {
    ++exchanges;
    std::vector<std::byte> everybody(bytes.size() * static_cast<std::size_t>(size()));
    HOCKET_TRY(all_gather(bytes.data(), everybody.data(), bytes.size() / 8, DataType::kInt64));
    for (std::size_t i = 0; i < group.size() && !out.empty(); ++i)
      std::memcpy(out.data() + i * bytes.size(), everybody.data() + static_cast<std::size_t>(group[i]) * bytes.size(),
                  bytes.size());
    return {};
  };
  Result<std::shared_ptr<CommunicatorState>> made = std::shared_ptr<CommunicatorState>();
  if (!group.empty()) {
    CreateArgs args;
    args.rank = static_cast<Rank>(std::find(group.begin(), group.end(), rank()) - group.begin());
    args.size = static_cast<int>(group.size());
    args.settings = state_->settings;
    args.engine = state_->engine;
    args.exchange = exchange;
    made = make_communicator(std::move(args));
  }
  while (exchanges < std::size(kSizes)) {
    const std::vector<std::byte> nothing(kSizes[exchanges]);
    HOCKET_TRY(exchange(nothing, {}));
  }
  if (!made.ok()) return made.status();
  return Communicator(std::move(*made));
}

}  // namespace hocket
