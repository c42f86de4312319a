// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/roll_call.hpp"

#include <algorithm>

#include "base/status.hpp"

namespace hocket {

std::size_t RollCall::add_leader(const LeaderCard& card) {
  leaders_.push_back({card, {}});
  return leaders_.size() - 1;
}

Status RollCall::join(std::size_t number, std::span<const std::byte> entries) {
  Leader& leader = leaders_[number];
  Reader reader(entries);
  RankEntry entry;
  while (reader.read(entry)) {
    const auto name = [](std::int32_t rank, std::uint32_t pid, const LeaderCard& card) {
      return format("rank {} (pid {} on {})", rank, pid, card.host.data());
    };
    if (size_ == 0) {
      if (entry.size < 1 || entry.size > kMostRanks) {
        return error(Code::kInvalidArgument, "{} wants a communicator of {} ranks: 1 to {} are possible",
                     name(entry.rank, entry.pid, leader.card), entry.size, kMostRanks);
      }
      size_ = entry.size;
      first_name_ = name(entry.rank, entry.pid, leader.card);
      leader_of_rank_.assign(static_cast<std::size_t>(size_), -1);
      pid_of_rank_.assign(static_cast<std::size_t>(size_), 0);
    }
    if (entry.size != size_) {
      return error(Code::kMismatch, "{} wants a communicator of {} ranks, {} one of {}",
                   name(entry.rank, entry.pid, leader.card), entry.size, first_name_, size_);
    }
    if (entry.rank < 0 || entry.rank >= size_) {
      return error(Code::kInvalidArgument, "{} cannot be in a communicator of {} ranks",
                   name(entry.rank, entry.pid, leader.card), size_);
    }
    const auto r = static_cast<std::size_t>(entry.rank);
    if (leader_of_rank_[r] >= 0) {
      const LeaderCard& other = leaders_[static_cast<std::size_t>(leader_of_rank_[r])].card;
      return error(Code::kInvalidArgument, "rank {} came twice: as pid {} on {} and as pid {} on {}", entry.rank,
                   pid_of_rank_[r], other.host.data(), entry.pid, leader.card.host.data());
    }
    leader_of_rank_[r] = static_cast<std::int32_t>(number);
    pid_of_rank_[r] = entry.pid;
    leader.ranks.push_back(entry.rank);
    ++arrived_;
  }
  return {};
}

std::vector<RollCall::Welcome> RollCall::welcomes() {
  // Hosts are numbered by their lowest rank.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < leaders_.size(); ++i) {
    Leader& leader = leaders_[i];
    if (leader.ranks.empty()) continue;
    leader.card.rank = *std::min_element(leader.ranks.begin(), leader.ranks.end());
    order.push_back(i);
  }
  const auto card = [this](std::size_t i) -> const LeaderCard& { return leaders_[i].card; };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return card(a).rank < card(b).rank; });
  const auto hosts = static_cast<std::uint32_t>(order.size());
  std::vector<Welcome> all;
  for (std::uint32_t h = 0; h < hosts; ++h) {
    const WelcomeHead head{.hosts = hosts, .index = h, .rounds = rounds_of(hosts)};
    Welcome& welcome = all.emplace_back(Welcome{order[h], {}});
    append(welcome.bytes, head);
    for (std::uint32_t k = 0; k < head.rounds; ++k) append(welcome.bytes, card(order[(h + hosts - (1u << k)) % hosts]));
    for (std::uint32_t k = 0; k < head.rounds; ++k) append(welcome.bytes, card(order[(h + (1u << k)) % hosts]));
  }
  return all;
}

Status RollCall::missing(std::string_view whose) {
  std::vector<Rank> missing;
  for (Rank r = 0; r < size_; ++r)
    if (leader_of_rank_[static_cast<std::size_t>(r)] < 0) missing.push_back(r);
  std::string came;
  int shown = 0;
  for (Leader& leader : leaders_) {
    if (leader.ranks.empty()) continue;
    if (++shown > 32) continue;
    std::sort(leader.ranks.begin(), leader.ranks.end());
    came += format("{}{} from {}", came.empty() ? "" : ", ", name_ranks(leader.ranks), leader.card.host.data());
  }
  if (shown > 32) came += format(", and from {} hosts more", shown - 32);
  return error(Code::kTimeout, "{} of {} {} not come ({}); here are {}", name_ranks(missing), size_,
               missing.size() == 1 ? "has" : "have", whose, came.empty() ? "none" : came);
}

Status RollCall::left(std::size_t number, std::string_view why) const {
  const Leader& leader = leaders_[number];
  std::vector<Rank> ranks = leader.ranks;
  std::sort(ranks.begin(), ranks.end());
  return error(Code::kPeerLost, "{} of {} left before all {} had come: {}",
               ranks.empty() ? "a process" : name_ranks(ranks), leader.card.host.data(), size_, why);
}

}  // namespace hocket
