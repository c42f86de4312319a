// SPDX-License-Identifier: Apache-2.0
#include "core/membership/agreement.hpp"

#include <algorithm>
#include <string_view>

#include "base/settings.hpp"
#include "base/status.hpp"
#include "core/membership/exchange.hpp"
#include "core/resolve_settings.hpp"

namespace hocket::membership {
namespace {

constexpr std::uint32_t kMemberMagic = 0x686f6b6d;  // "hokm"
constexpr std::uint16_t kMemberVersion = 3;

// Where two texts of settings_text() differ.
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

}  // namespace

Member member_of(const CommunicatorState& state, std::uint64_t settings_digest) {
  Member mine;
  mine.magic = kMemberMagic;
  mine.version = kMemberVersion;
  mine.algorithms = static_cast<std::uint16_t>(algorithms().size());
  mine.rank = state.rank;
  mine.size = state.size;
  mine.address = state.engine->address();
  mine.block_page = static_cast<std::uint32_t>(state.block_offset / 4096);
  mine.settings_digest = settings_digest;
  return mine;
}

const Tuning& tuning_of(const World& world) {
  return world.tuning ? *world.tuning : default_tuning();
}

std::string settings_text(const Settings& settings, const World& world) {
  return format("{}transport={}\ntuning={:016x}\ntuner={}\n", agreed_settings_to_text(settings), settings.transport,
                tuning_of(world).digest(),
                settings.tuner ? format("{} version {}", settings.tuner->name, settings.tuner->version) : "none");
}

Status read_lists(const Settings& settings, World* world) {
  HOCKET_ASSIGN(AllowedNames names, allowed_names(settings));
  world->algorithms = std::move(names.algorithms);
  world->protocols = std::move(names.protocols);
  return {};
}

Status check_tuner(const Tuner& tuner) {
  const bool printable = std::all_of(tuner.name.begin(), tuner.name.end(),
                                     [](char c) { return c >= ' ' && c <= '~' && c != '=' && c != '\''; });
  if (tuner.name.empty() || tuner.name.size() > 64 || !printable)
    return error(Code::kInvalidArgument,
                 "a tuner needs a name of 1 to 64 printable ASCII characters other than = and ', not '{}'", tuner.name);
  if (!tuner.choose) return error(Code::kInvalidArgument, "the tuner '{}' has no function", tuner.name);
  return {};
}

Status check_members(const std::vector<Member>& members, Rank rank, bool* words) {
  const Member& mine = members[static_cast<std::size_t>(rank)];
  for (std::size_t r = 0; r < members.size(); ++r) {
    const Member& m = members[r];
    const std::string_view host = get_text(m.address.host_name);
    if (m.magic == 0 && m.version == 0 && m.size == 0)
      return error(Code::kInvalidArgument,
                   "the exchange returned nothing for rank {}, whose entry is empty (all zero): it has to fill in what "
                   "each of the {} ranks gave",
                   r, members.size());
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

}  // namespace hocket::membership
