// SPDX-License-Identifier: Apache-2.0
// core/membership.cpp: how ranks become a communicator.
//
// Three all-gathers, by whatever exchange the caller has: members (who I am, what I was told to use), outcomes (whom I
// reach), places (where I run); one more where ranks have GPUs (core/agree_layout.hpp), or where something is wrong.
// After each, every rank looks at all entries in the same order and so comes to the same conclusion: an error on one
// rank is the error of all.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/log.hpp"
#include "base/os/membarrier.hpp"
#include "base/os/random.hpp"
#include "base/status.hpp"
#include "core/agree_layout.hpp"
#include "core/communicator_state.hpp"
#include "core/progress.hpp"
#include "core/tuning_file.hpp"
#include "topo/cost.hpp"
#include "topo/domains.hpp"
#include "topo/hash.hpp"

namespace hocket {
namespace {

constexpr std::uint32_t kMemberMagic = 0x686f6b6d;  // "hokm"
constexpr std::uint16_t kMemberVersion = 3;
/// About half of what a yield costs (bench: 4 ranks on 2 cores; 48 looks and more were slower again).
constexpr std::uint32_t kLingerLooks = 16;

/// When a rank made this exchange and had ended the one before, on its clock.
struct ExchangeTimes {
  std::int64_t began_ns = 0;
  std::int64_t ended_before_ns = 0;
};

/// What exchanges that follow each other tell of rank 0's clock.
class ExchangeClock {
 public:
  ExchangeTimes begin() {
    began_before_ns_ = mine_.began_ns;
    mine_.began_ns = os::now_ns();
    return mine_;
  }
  /// With what rank 0 sent in it, if that had its times.
  void end(const ExchangeTimes* theirs) {
    mine_.ended_before_ns = os::now_ns();
    if (theirs == nullptr) return;
    bounds_.they_began(theirs->began_ns, mine_.ended_before_ns);
    bounds_.they_ended(theirs->ended_before_ns, began_before_ns_);
  }
  const ClockBounds& bounds() const { return bounds_; }

 private:
  ExchangeTimes mine_;
  std::int64_t began_before_ns_ = 0;
  ClockBounds bounds_;
};

struct PlaceCard {
  topo::Place place;
  ExchangeTimes times;
  std::int32_t gpu = -1;   ///< node in the host's graph
  std::uint32_t code = 0;  ///< not 0: the GPU that this rank was told is not there
};

struct Outcome {
  std::uint32_t code = 0;
  std::uint32_t direct = 0;       ///< the memory of all whom I reached can be loaded and stored
  std::uint64_t cache_bytes = 0;  ///< leaders: the host's last-level cache
  double hop_seconds = 0;         ///< leaders: cost of a message between two ranks of the host, from its graph
  double bytes_per_second = 0;
  double net_hop_seconds = 0;  ///< leaders: cost of a message to another host
  double net_bytes_per_second = 0;
  std::uint64_t graph_offset = 0;  ///< leaders: the host's graph as bytes in my arena
  std::uint64_t graph_bytes = 0;
  std::uint64_t id = 0;  ///< rank 0's becomes the communicator's
  // CPUs that my process may use: enough to tell a host with fewer of them than ranks.
  float quota = 0;             ///< CPUs by a cgroup; 0: no limit
  std::uint32_t cpu_mask = 0;  ///< hash
  std::uint16_t cpu_count = 0, cpu_first = 0, cpu_last = 0;
  std::uint16_t membarrier = 0;  ///< my process can make sleepers' bells seen (exec/waiter.hpp)
  ExchangeTimes times;
};

/// What an error needs. Exchanged only when some rank has one: every rank sees from the round before whether that is
/// so.
struct Words {
  char settings[768] = {};  ///< those that must agree
  char text[512] = {};      ///< what went wrong on this rank
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

Status exchange_bytes(const Exchange& exchange, std::span<const std::byte> mine, std::span<std::byte> all,
                      std::string_view what) {
  if (mine.size() == all.size()) {  // a world of one
    std::memcpy(all.data(), mine.data(), mine.size());
    return {};
  }
  Status status;
  try {
    status = exchange(mine, all);
  } catch (const std::exception& e) {
    status = error(Code::kSystem, "the caller's exchange threw: {}", e.what());
  } catch (...) {
    status = error(Code::kSystem, "the caller's exchange threw");
  }
  return status.ok() ? status : Status(status.code(), format("exchanging {}: {}", what, status.text()));
}

template <class T>
Status exchange_all(const Exchange& exchange, const T& mine, std::vector<T>* all, std::string_view what) {
  return exchange_bytes(exchange, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(*all)), what);
}

Code told_code(std::uint32_t code) {
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

const Tuning& tuning_of(const World& world) {
  return world.tuning ? *world.tuning : default_tuning();
}

/// All that must agree, as text; also which transports may be used, since with other lists one rank would wait for what
/// another rules out, and the rows of the tuning tables and the tuner, by which all have to choose alike.
std::string settings_text(const Settings& settings, const World& world) {
  return format("{}transport={}\ntuning={:016x}\ntuner={}\n", agreed_settings_to_text(settings), settings.transport,
                tuning_of(world).digest(),
                settings.tuner ? format("{} version {}", settings.tuner->name, settings.tuner->version) : "none");
}

/// The name is in texts that ranks compare and print.
Status check_tuner(const Tuner& tuner) {
  const bool printable = std::all_of(tuner.name.begin(), tuner.name.end(),
                                     [](char c) { return c >= ' ' && c <= '~' && c != '=' && c != '\''; });
  if (tuner.name.empty() || tuner.name.size() > 64 || !printable)
    return error(Code::kInvalidArgument,
                 "a tuner needs a name of 1 to 64 printable ASCII characters other than = and ', not '{}'", tuner.name);
  if (!tuner.choose) return error(Code::kInvalidArgument, "the tuner '{}' has no function", tuner.name);
  return {};
}

/// The texts differ: where.
std::string settings_difference(std::string_view a, std::string_view b, std::size_t rank_b) {
  struct Parts {
    std::string_view settings, transport, tuning, tuner;
  };
  const auto split = [](std::string_view text) {
    Parts parts;
    const auto cut = [&text](std::string_view name) {
      const std::size_t at = text.rfind(name);
      if (at == text.npos) return std::string_view();
      const std::string_view value = text.substr(at + name.size());
      text = text.substr(0, at);
      return value.substr(0, value.find('\n'));
    };
    parts.tuner = cut("tuner=");
    parts.tuning = cut("tuning=");
    parts.transport = cut("transport=");
    parts.settings = text;
    return parts;
  };
  const auto [settings_a, transport_a, tuning_a, tuner_a] = split(a);
  const auto [settings_b, transport_b, tuning_b, tuner_b] = split(b);
  if (transport_a != transport_b)
    return format("HOCKET_TRANSPORT is '{}' on rank 0 and '{}' on rank {}", transport_a, transport_b, rank_b);
  if (tuning_a != tuning_b)
    return format(
        "the tuning table (HOCKET_TUNING, or the one built in) has digest {} on rank 0 and {} on rank {}: give all "
        "ranks the same file",
        tuning_a, tuning_b, rank_b);
  if (tuner_a != tuner_b)
    return format("the tuner (Settings::tuner) is {} on rank 0 and {} on rank {}: all ranks must choose alike", tuner_a,
                  tuner_b, rank_b);
  const auto parsed_a = agreed_settings_from_text(settings_a), parsed_b = agreed_settings_from_text(settings_b);
  return parsed_a.ok() && parsed_b.ok()
             ? describe_difference(*parsed_a, *parsed_b, "on rank 0", format("on rank {}", rank_b))
             : "settings differ";
}

/// All entries are what they should be. The same answer on every rank, worded for this one. `words`: some rank has more
/// to say.
Status check_members(const std::vector<Member>& members, Rank rank, bool* words) {
  const Member& mine = members[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < members.size(); ++r) {
    const Member& m = members[r];
    const std::string_view host = get_text(m.address.host_name);
    if (m.magic != kMemberMagic || m.version != kMemberVersion || m.algorithms != mine.algorithms)
      return error(Code::kMismatch, "rank {} on {} runs another version of hocket than rank {} (entry {:x} version {})",
                   r, host, rank, m.magic, m.version);
    if (m.rank != static_cast<std::int32_t>(r))
      return error(Code::kInvalidArgument, "the exchange put rank {} at place {}: ranks must be passed as they are",
                   m.rank, r);
    if (m.size != static_cast<std::int32_t>(members.size()))
      return error(Code::kMismatch, "rank {} on {} wants a communicator of {} ranks, rank {} one of {}", r, host,
                   m.size, rank, members.size());
    if (m.code == 0 && m.address.magic != kAddressMagic) return error(Code::kMismatch, "rank {} sent a bad address", r);
    *words |= m.code != 0 || m.settings_digest != members[0].settings_digest;
  }
  return {};
}

/// Why there will be no communicator, from what all ranks said.
Status explain(const std::vector<Member>& members, const std::vector<Words>& words) {
  for (std::size_t r = 0; r < members.size(); ++r)
    if (members[r].code != 0)
      return error(told_code(members[r].code), "rank {} on {}: {}", r, get_text(members[r].address.host_name),
                   get_text(words[r].text));
  for (std::size_t r = 1; r < members.size(); ++r)
    if (members[r].settings_digest != members[0].settings_digest)
      return error(Code::kMismatch, "ranks must agree: {}",
                   settings_difference(get_text(words[0].settings), get_text(words[r].settings), r));
  return error(Code::kInternal, "some rank failed without a reason");
}

/// All slots that a rank receives on together should not fit the cache of one core (1 MiB and more): lines that the
/// reader's cache still holds are several times slower to write again than those that have moved on to the shared
/// cache. Over a network a transfer costs system calls and packets, so few large slots are better
/// (docs/performance.md).
struct SlotSizes {
  std::uint64_t slots, slot_bytes;
};
SlotSizes slots_for(const Settings& settings, std::size_t ranks, bool network) {
  SlotSizes sizes{ranks <= 2 ? 16u : ranks <= 4 ? 8u : 4u, 64 << 10};
  if (network) sizes = {ranks <= 2 ? 8u : 4u, ranks <= 4 ? 256u << 10 : 128u << 10};
  if (settings.slots >= 2 && std::has_single_bit(static_cast<std::uint32_t>(settings.slots)))
    sizes.slots = static_cast<std::uint64_t>(settings.slots);
  if (settings.slot_bytes >= 4096 && std::has_single_bit(settings.slot_bytes))
    sizes.slot_bytes = settings.slot_bytes;
  else if (settings.tile_bytes > sizes.slot_bytes && settings.tile_bytes <= std::size_t{4} << 20)
    sizes.slot_bytes = std::bit_ceil(settings.tile_bytes);
  return sizes;
}

/// Whether some of the ranks reach each other only over a network, as far as it can be known before they have met.
/// Equal on all ranks, though each has its own list of transports.
Result<bool> over_network(const CreateArgs& args) {
  struct Near {
    std::array<std::uint64_t, 2> host;
    std::uint64_t shared_memory;
    bool operator==(const Near&) const = default;
  };
  const std::string_view transports[] = {"local", "shm", "tcp"};
  const auto allowed = AllowList::parse(args.settings.transport, transports, "HOCKET_TRANSPORT");
  const Near own{args.engine->address().host, !allowed.ok() || allowed->allows(Collective::kBarrier, "shm")};
  std::vector<Near> all(static_cast<std::size_t>(args.size), own);
  if (args.size > 1) HOCKET_TRY(exchange_all(args.exchange, own, &all, "hosts"));
  return std::any_of(all.begin(), all.end(),
                     [&](const Near& near) { return near != all.front() || near.shared_memory == 0; });
}

void fill_cpus(Outcome& member) {
  std::vector<std::string> notes;
  const topo::CpuBudget budget = topo::read_cpu_budget("", &notes);
  const std::vector<int> cpus = budget.allowed.to_vector();
  member.cpu_count = static_cast<std::uint16_t>(std::min<std::size_t>(cpus.size(), 0xffff));
  if (!cpus.empty()) {
    member.cpu_first = static_cast<std::uint16_t>(cpus.front());
    member.cpu_last = static_cast<std::uint16_t>(cpus.back());
  }
  member.cpu_mask = static_cast<std::uint32_t>(
      topo::hash_bytes({reinterpret_cast<const char*>(cpus.data()), cpus.size() * sizeof(int)}));
  member.quota = static_cast<float>(budget.quota_cpus);
  member.membarrier = os::register_membarrier();
}

/// What counts of a host, from its ranks' entries.
struct HostLoad {
  int ranks = 0;
  std::map<std::uint32_t, const Outcome*> masks;  ///< the different sets of CPUs
  float quota = 0;

  bool crowded() const { return ranks > usable(); }
  /// Two ranks a core, or fewer: then a peer of another core is more likely running than not.
  bool half_of_them_run() const { return ranks <= 2 * usable(); }

 private:
  /// CPUs that the ranks may use together. Sets that may overlap count as one.
  double usable() const {
    double usable = 0;
    std::vector<const Outcome*> sets;
    for (const auto& [hash, member] : masks) sets.push_back(member);
    std::sort(sets.begin(), sets.end(), [](const Outcome* a, const Outcome* b) { return a->cpu_first < b->cpu_first; });
    for (std::size_t i = 0; i < sets.size();) {
      int last = -1;
      double most = 0;
      for (bool first = true; i < sets.size() && (first || sets[i]->cpu_first <= last); ++i, first = false) {
        last = std::max<int>(last, sets[i]->cpu_last);
        most = std::max<double>(most, sets[i]->cpu_count);
      }
      usable += most;
    }
    if (quota > 0) usable = std::min<double>(usable, quota);
    return usable;
  }
};

/// Numbers hosts by their lowest rank, the leader; how many there are.
int number_hosts(std::vector<Member>* members) {
  std::map<std::array<std::uint64_t, 2>, Rank> leaders;
  for (std::size_t r = 0; r < members->size(); ++r)
    (*members)[r].host = leaders.try_emplace((*members)[r].address.host, static_cast<Rank>(r)).first->second;
  return static_cast<int>(leaders.size());
}

/// The same numbers without gaps.
std::vector<std::int32_t> host_numbers(const std::vector<Member>& members) {
  std::map<Rank, std::int32_t> number;
  for (const Member& member : members) number.try_emplace(member.host, static_cast<std::int32_t>(number.size()));
  std::vector<std::int32_t> host;
  host.reserve(members.size());
  for (const Member& member : members) host.push_back(number.at(member.host));
  return host;
}

/// By leader, as hosts are numbered.
std::map<Rank, HostLoad> load_of_hosts(const std::vector<Member>& members, const std::vector<Outcome>& outcomes) {
  std::map<Rank, HostLoad> hosts;
  for (std::size_t r = 0; r < members.size(); ++r) {
    const Outcome& o = outcomes[r];
    HostLoad& load = hosts[members[r].host];
    ++load.ranks;
    load.masks.try_emplace(o.cpu_mask, &o);
    if (o.quota > 0) load.quota = load.quota == 0 ? o.quota : std::min(load.quota, o.quota);
  }
  return hosts;
}

/// Among the ranks of its host.
std::ptrdiff_t local_place(const std::vector<std::int32_t>& host, Rank rank) {
  const auto mine = host.begin() + rank;
  return std::count(host.begin(), mine, *mine);
}

/// The node of the GPU that a rank was told is its own (Settings::gpu).
Result<std::int32_t> gpu_of(const std::string& name, const topo::Graph* graph, const std::vector<std::int32_t>& host,
                            Rank rank) {
  if (graph == nullptr)
    return error(Code::kUnsupported, "HOCKET_GPU='{}' cannot be looked up: this host's topology is not known", name);
  std::string wanted = name;
  if (name == "local") wanted = std::to_string(local_place(host, rank));
  const int node = topo::find_gpu(*graph, wanted);
  if (node >= 0) return node;
  std::vector<std::string> known;
  for (const int gpu : graph->of_kind(topo::NodeKind::kGpu)) {
    const topo::Node& there = graph->nodes[static_cast<std::size_t>(gpu)];
    known.push_back(format("{} ({})", there.os_index >= 0 ? there.os_index : there.index, there.name));
  }
  return error(Code::kInvalidArgument, "HOCKET_GPU='{}' asks for GPU {}, but this host has {}", name, wanted,
               known.empty() ? std::string("none") : join(known, ", "));
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
  EngineCore& engine = *args.engine;
  engine.graveyard().sweep(engine.arena());

  const auto n = static_cast<std::size_t>(args.size);
  HOCKET_ASSIGN(const bool network, over_network(args));
  const SlotSizes sizes = slots_for(args.settings, n, network);
  const BlockLayout layout(n, sizes.slots, sizes.slot_bytes, args.settings.flight_recorder_entries);
  auto state = std::make_shared<CommunicatorState>(args.engine, layout);
  Stopwatch watch(state->phases);
  state->settings = args.settings;
  state->rank = args.rank;
  state->size = args.size;
  state->lost.resize(n);
  state->parent = args.parent;

  // My block. What goes wrong from here on is told to the others, who would wait for me in vain.
  Member mine;
  Status status = validate(args.settings);
  if (status.ok()) {
    const auto algorithm_list = algorithm_names();
    const auto protocol_list = protocol_names();
    const std::string_view transports[] = {"local", "shm", "tcp"};
    auto a = AllowList::parse(args.settings.algo, algorithm_list, "HOCKET_ALGO");
    auto p = AllowList::parse(args.settings.proto, protocol_list, "HOCKET_PROTO");
    auto t = AllowList::parse(args.settings.transport, transports, "HOCKET_TRANSPORT");
    if (a.ok()) status = fit_algorithms(&*a);
    if (!a.ok()) status = a.status();
    if (!p.ok()) status = p.status();
    if (!t.ok()) status = t.status();
    if (a.ok() && p.ok()) {
      state->world.algorithms = *a;
      state->world.protocols = *p;
    }
  }
  if (status.ok() && args.settings.tuner) status = check_tuner(*args.settings.tuner);
  state->world.tuner = args.settings.tuner;
  if (status.ok() && args.parent) {
    state->world.tuning = args.parent->world.tuning;
  } else if (status.ok() && !args.settings.tuning.empty()) {
    auto table = load_tuning(args.settings.tuning);
    status = table.status();
    if (table.ok()) state->world.tuning = std::move(*table);
  }
  if (status.ok()) {
    auto observer = engine.observation().observe(args.settings, args.rank, args.size);
    status = observer.status();
    if (observer.ok()) state->observer = *observer;
  }
  Arena& arena = engine.arena();
  if (status.ok()) {
    auto offset = arena.reserve(layout.bytes, 4096);
    if (offset.ok()) {
      state->block_offset = *offset;
      status = Channels::commit_block(arena, *offset, layout);
    } else {
      status = error(offset.status().code(), "a rank of {} needs {} MiB of addresses for its channels: {}", n,
                     layout.bytes >> 20, offset.status().text());
    }
  }
  mine.magic = kMemberMagic;
  mine.version = kMemberVersion;
  mine.algorithms = static_cast<std::uint16_t>(algorithms().size());
  mine.rank = args.rank;
  mine.size = args.size;
  mine.address = engine.address();
  mine.block_page = static_cast<std::uint32_t>(state->block_offset / 4096);
  Words my_words;
  put_text(my_words.settings, settings_text(args.settings, state->world));
  mine.settings_digest = topo::hash_bytes(settings_text(args.settings, state->world));
  if (!status.ok()) {
    mine.code = static_cast<std::uint32_t>(status.code());
    put_text(my_words.text, status.text());
  } else {
    state->channels = std::make_unique<Channels>(arena, state->block_offset, layout, args.rank, args.first_transfer);
    BlockHeader& header = state->block();
    header.bytes = layout.bytes;
    header.rank = args.rank;
    header.size = args.size;
    header.pid = engine.address().pid;
    header.slots = static_cast<std::uint32_t>(layout.slots);
    header.slot_bytes = layout.slot_bytes;
    header.records = layout.records;
    put_text(header.host_name, get_text(engine.address().host_name));
  }
  watch.lap("own memory");

  std::vector<Member>& members = state->members;
  members.resize(n);
  ExchangeClock clock;
  (void)clock.begin();
  HOCKET_TRY(exchange_all(args.exchange, mine, &members, "addresses"));
  clock.end(nullptr);
  watch.lap("exchange of addresses");
  bool words_follow = false;
  if (Status checked = check_members(members, args.rank, &words_follow); !checked.ok())
    return status.ok() ? checked : status;
  if (words_follow) {
    std::vector<Words> words(n);
    HOCKET_TRY(exchange_all(args.exchange, my_words, &words, "errors"));
    return status.ok() ? explain(members, words) : status;
  }
  const int hosts = number_hosts(&members);
  const Rank leader = members[static_cast<std::size_t>(args.rank)].host;
  state->exposed = n > 1;

  // Reach everybody, or in a large world this rank itself and its host's leader. Also after a failure everybody is
  // tried: who waits for this rank would not learn otherwise that it need not wait.
  const os::WaitLimits limits{os::Deadline::after_or_never(args.settings.start_timeout), args.abort};
  const bool eager = args.size <= kEagerRanks;
  Outcome outcome;
  outcome.direct = hosts == 1;
  fill_cpus(outcome);
  if (args.rank == 0) {
    HOCKET_TRY(os::random_bytes(std::as_writable_bytes(std::span(&outcome.id, 1))));
  }
  Status reached;
  for (std::size_t d = 0; d < n; ++d) {
    const auto r = static_cast<Rank>((static_cast<std::size_t>(args.rank) + d) % n);
    if (!eager && r != args.rank && r != leader) continue;
    if (Status status_of_one = state->reach(r, limits, !eager); !status_of_one.ok()) {
      if (reached.ok()) reached = std::move(status_of_one);
      continue;
    }
    if (state->channels->peer(r).block == nullptr) outcome.direct = 0;
  }
  watch.lap("connections");

  // The leader of a host shows its view of the machine to the others there.
  std::uint64_t graph_offset = 0;
  std::shared_ptr<const topo::Graph> graph;
  if (reached.ok() && leader == args.rank) {
    if (auto machine = engine.machine(); machine.ok()) {
      graph = *machine;
      outcome.cache_bytes = graph->l3_bytes();
      const topo::LinkCost cost = topo::link_cost(*graph, topo::LinkKind::kShm);
      outcome.hop_seconds = cost.alpha_seconds;
      outcome.bytes_per_second = cost.beta_bytes_per_second;
      const topo::LinkCost network = topo::link_cost(*graph, topo::LinkKind::kNet);
      outcome.net_hop_seconds = network.alpha_seconds;
      outcome.net_bytes_per_second = network.beta_bytes_per_second;
      const std::string bytes = graph->to_bytes();
      if (auto offset = arena.reserve(bytes.size(), 4096); offset.ok()) {
        graph_offset = *offset;
        if (arena.commit(graph_offset, bytes.size()).ok()) {
          std::memcpy(arena.base() + graph_offset, bytes.data(), bytes.size());
          outcome.graph_offset = graph_offset;
          outcome.graph_bytes = bytes.size();
        }
      }
    } else if (!args.settings.topo_file.empty() || !args.settings.graph_dump_file.empty()) {
      reached = machine.status();  // asked for, so not to be passed over
    } else {
      HOCKET_LOG(LogLevel::kWarn, "rank {} cannot read the machine's topology: {}", args.rank, machine.status().text());
    }
  }
  watch.lap("topology");
  if (!reached.ok()) {
    outcome.code = static_cast<std::uint32_t>(reached.code());
    put_text(my_words.text, reached.text());
  }
  // Shown only until the others have read it, whatever happens.
  struct ShownGraph {
    Arena& arena;
    std::uint64_t& offset;
    ~ShownGraph() {
      if (offset != 0) arena.release(offset);
    }
  } shown_graph{arena, graph_offset};

  // What all ranks may base a choice on.
  World& world = state->world;
  world.size = args.size;
  world.slots = layout.slots;
  world.slot_bytes = layout.slot_bytes;
  world.tile_bytes = args.settings.tile_bytes;
  world.lanes = args.settings.lanes;
  world.reproducible = args.settings.reproducible;
  world.hosts = hosts;
  LayoutInputs inputs;
  inputs.rank = args.rank;
  inputs.host = host_numbers(members);
  std::uint64_t graph_at = 0, graph_bytes = 0;
  {
    std::vector<Outcome> outcomes(n);
    outcome.times = clock.begin();
    HOCKET_TRY(exchange_all(args.exchange, outcome, &outcomes, "outcomes"));
    clock.end(&outcomes[0].times);
    const auto failed = std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.code != 0; });
    if (failed != outcomes.end()) {
      std::vector<Words> words(n);
      HOCKET_TRY(exchange_all(args.exchange, my_words, &words, "errors"));
      return error(told_code(failed->code), "{}",
                   get_text(words[static_cast<std::size_t>(failed - outcomes.begin())].text));
    }
    world.direct = std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.direct != 0; });
    state->id = outcomes[0].id;
    std::uint64_t cache = 0;
    for (const auto& [r, load] : load_of_hosts(members, outcomes)) {
      const Outcome& o = outcomes[static_cast<std::size_t>(r)];
      // The slowest host's figures count for all.
      if (o.hop_seconds > 0) world.hop_seconds = std::max(world.hop_seconds, o.hop_seconds);
      if (o.bytes_per_second > 0) world.seconds_per_byte = std::max(world.seconds_per_byte, 1 / o.bytes_per_second);
      topo::HostLinks links;
      links.hop_seconds = o.hop_seconds;
      links.ring_rate = links.tree_rate = links.direct_rate = links.step_rate = o.bytes_per_second;
      links.net_hop_seconds = o.net_hop_seconds;
      links.net_rate = o.net_bytes_per_second;
      inputs.links.push_back(links);
      if (o.cache_bytes != 0) cache = cache == 0 ? o.cache_bytes : std::min(cache, o.cache_bytes);
      world.crowded |= load.crowded();
      if (r == leader) {
        state->wait_policy.crowded = load.crowded();
        state->wait_policy.linger_looks = load.half_of_them_run() ? kLingerLooks : 0;
      }
    }
    // A fence at each signal, or one at each sleep: the latter where ranks seldom sleep and all of the host can.
    state->fenced = world.crowded ||
                    !std::all_of(outcomes.begin(), outcomes.end(), [](const Outcome& o) { return o.membarrier != 0; });
    state->wait_policy.fenced = state->fenced;
    if (cache != 0) world.cache_bytes = cache;
    if (!world.direct && hosts == 1) {
      // A network was asked for within the host.
      world.hop_seconds = std::max(world.hop_seconds, topo::kLoopbackSeconds);
      world.seconds_per_byte = std::max(world.seconds_per_byte, 1 / topo::kLoopbackRate);
    }
    graph_at = outcomes[static_cast<std::size_t>(leader)].graph_offset;
    graph_bytes = outcomes[static_cast<std::size_t>(leader)].graph_bytes;
  }
  if (!world.direct) state->wait_policy.spin_ns = kNetworkSpinNs;
  if (args.settings.spin)
    state->wait_policy.spin_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(*args.settings.spin).count();

  // Where everybody runs: the leader's graph, this rank's mask.
  topo::Place place;
  place.host = engine.address().host;
  place.process = engine.address().token.low;
  if (!graph) {
    const PeerView& view = state->channels->peer(leader);
    const std::uint64_t arena_bytes = members[static_cast<std::size_t>(leader)].address.arena_bytes;
    if (graph_bytes != 0 && view.arena != nullptr && graph_at <= arena_bytes && graph_bytes <= arena_bytes - graph_at) {
      const auto* bytes = reinterpret_cast<const char*>(view.arena + graph_at);
      if (auto parsed = topo::Graph::from_bytes(std::string(bytes, graph_bytes)); parsed.ok()) {
        graph = std::make_shared<const topo::Graph>(std::move(*parsed));
        engine.set_machine(graph);
      }
    }
  }
  if (graph) {
    auto allowed_cpus = topo::CpuSet::of_this_process();
    place = topo::place_of(*graph, engine.address().host, engine.address().token.low,
                           allowed_cpus.ok() ? *allowed_cpus : topo::CpuSet());
  }
  PlaceCard my_card{place, {}};
  Status no_gpu;
  if (!args.settings.gpu.empty()) {
    if (!graph) {  // the leader's is not to be had by loads: over tcp
      if (auto machine = engine.machine(); machine.ok()) graph = *machine;
    }
    auto found = gpu_of(args.settings.gpu, graph.get(), inputs.host, args.rank);
    if (found.ok()) {
      my_card.gpu = *found;
      // Communicators that are made of this one: the same GPU, whatever the place there.
      if (args.settings.gpu == "local") state->settings.gpu = std::to_string(local_place(inputs.host, args.rank));
    } else {
      no_gpu = found.status();
      my_card.code = static_cast<std::uint32_t>(no_gpu.code());
      put_text(my_words.text, no_gpu.text());
    }
  }
  {
    std::vector<PlaceCard> cards(n);
    my_card.times = clock.begin();
    HOCKET_TRY(exchange_all(args.exchange, my_card, &cards, "places"));
    clock.end(&cards[0].times);
    const auto failed = std::find_if(cards.begin(), cards.end(), [](const PlaceCard& card) { return card.code != 0; });
    if (failed != cards.end()) {
      std::vector<Words> words(n);
      HOCKET_TRY(exchange_all(args.exchange, my_words, &words, "errors"));
      const auto r = static_cast<std::size_t>(failed - cards.begin());
      return error(told_code(failed->code), "rank {} on {}: {}", r, get_text(members[r].address.host_name),
                   get_text(words[r].text));
    }
    if (eager) {
      std::vector<topo::Place> places(n);
      std::transform(cards.begin(), cards.end(), places.begin(), [](const PlaceCard& card) { return card.place; });
      state->domains = topo::domains_of(places);
    }
    for (const PlaceCard& card : cards) inputs.gpu.push_back(card.gpu);
  }
  inputs.graph = graph;
  inputs.known = &engine.host_layouts();
  HOCKET_ASSIGN(world.layout,
                agree_layout(inputs, [&](std::span<const std::byte> mine_bytes, std::span<std::byte> all) {
                  return exchange_bytes(args.exchange, mine_bytes, all, "layouts");
                }));
  if (world.layout) world.layout_digest = world.layout->digest();
  watch.lap("exchange of outcomes and places");

  state->executor = std::make_unique<Executor>(*state->channels, state->fenced);
  auto& header = state->block();
  header.communicator = state->id;
  if (state->observer) {
    // A host has one clock.
    const bool beside_rank_0 = members[static_cast<std::size_t>(args.rank)].host == members[0].host;
    state->observer->identify(state->id, header.live, beside_rank_0 ? ClockBounds() : clock.bounds());
  }
  header.magic = kBlockMagic;
  for (auto& entry : arena.header().blocks) {
    std::uint64_t free = 0;
    if (entry.compare_exchange_strong(free, state->block_offset, std::memory_order_release)) break;
  }
  state->made = true;
  std::weak_ptr<CommunicatorState> weak = state;
  if (args.parent) {
    const std::lock_guard lock(args.parent->children_mutex);
    std::erase_if(args.parent->children, [](const auto& child) { return child.expired(); });
    args.parent->children.push_back(weak);
  }
  state->loss_subscription = engine.subscribe([weak](const ProcessToken& token, const Status& why) {
    if (auto alive = weak.lock()) alive->on_loss(token, why);
  });
  watch.lap("channels");
  HOCKET_LOG(LogLevel::kInfo, "rank {} of {} is in communicator {:x}: {} host{}, {}{}, tuning {} ({:016x})",
             state->rank, state->size, state->id, world.hosts, world.hosts == 1 ? "" : "s",
             world.direct ? "all memory reachable" : "some peers reached by puts only",
             world.crowded ? ", more ranks than cores" : "", tuning_of(world).name(), tuning_of(world).digest());
  if (world.layout)
    HOCKET_LOG(LogLevel::kInfo, "rank {} of communicator {:x}: {} ({:016x})", state->rank, state->id,
               world.layout->to_text(), world.layout->digest());
  return state;
}

}  // namespace hocket
