// SPDX-License-Identifier: Apache-2.0
// roll_call.hpp: who has come to a meeting, as its root counts them: by leaders, each with the ranks of its host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/messages.hpp"

namespace hocket {

/// Leaders are known by their number, in the order in which they came. What they say is checked. One thread.
class RollCall {
 public:
  /// One more leader: its number.
  std::size_t add_leader(const LeaderCard& card);
  /// Its ranks, some of them: the bytes of a frame of kind kJoin. Errors: kInvalidArgument (twice, out of range),
  /// kMismatch (unequal sizes).
  Status join(std::size_t leader, std::span<const std::byte> entries);
  bool all_here() const noexcept { return size_ != 0 && arrived_ == size_; }

  /// Once all are here: what each leader with ranks is told.
  struct Welcome {
    std::size_t leader;
    std::vector<std::byte> bytes;
  };
  std::vector<Welcome> welcomes();

  /// The error of a rank whose time is over: who is missing, who is here. `whose`: "rank 3 waited 5.0 s".
  Status missing(std::string_view whose);
  /// The error of a leader that went before all had come.
  Status left(std::size_t leader, std::string_view why) const;

 private:
  struct Leader {
    LeaderCard card;
    std::vector<Rank> ranks;
  };

  int size_ = 0;  // 0: nobody has come
  std::string first_name_;
  int arrived_ = 0;
  std::vector<std::int32_t> leader_of_rank_;  // -1: has not come
  std::vector<std::uint32_t> pid_of_rank_;
  std::vector<Leader> leaders_;
};

}  // namespace hocket
