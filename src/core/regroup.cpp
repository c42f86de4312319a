// SPDX-License-Identifier: Apache-2.0
// core/regroup.cpp: communicators made of communicators: split, duplicate, grow. (shrink.cpp has its own, because it
// cannot count on the old one.)
// Next stop: core/membership.cpp.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/status.hpp"
#include "core/communicator_state.hpp"

namespace hocket {
namespace {

/// Messages of an exchange are multiples of 4 bytes.
constexpr DataType kBytes = DataType::kInt32;

/// An exchange between `group` (ranks of `parent`, this one among them), by messages: to the first and back.
Exchange exchange_among(Communicator& parent, const std::vector<Rank>& group) {
  return [&parent, &group](std::span<const std::byte> mine, std::span<std::byte> all) -> Status {
    const Rank first = group.front();
    if (parent.rank() != first) {
      HOCKET_TRY(parent.send(mine.data(), mine.size() / 4, kBytes, first));
      return parent.receive(all.data(), all.size() / 4, kBytes, first);
    }
    std::memcpy(all.data(), mine.data(), mine.size());
    for (std::size_t i = 1; i < group.size(); ++i)
      HOCKET_TRY(parent.receive(all.data() + i * mine.size(), mine.size() / 4, kBytes, group[i]));
    for (std::size_t i = 1; i < group.size(); ++i)
      HOCKET_TRY(parent.send(all.data(), all.size() / 4, kBytes, group[i]));
    return {};
  };
}

/// A communicator of `group`, in that order.
Result<Communicator> regroup(Communicator& parent, const std::vector<Rank>& group) {
  CreateArgs args;
  args.rank = static_cast<Rank>(std::find(group.begin(), group.end(), parent.rank()) - group.begin());
  args.size = static_cast<int>(group.size());
  args.settings = parent.state()->settings;
  args.engine = parent.state()->engine;
  args.exchange = exchange_among(parent, group);
  args.parent = parent.state();
  HOCKET_ASSIGN(auto made, make_communicator(std::move(args)));
  return Communicator(std::move(made));
}

}  // namespace

Result<Communicator> Communicator::grow(const UniqueId& id, int new_size) {
  if (!state_) return error(Code::kInvalidArgument, "grow of a communicator that was moved from");
  if (new_size <= size())
    return error(Code::kInvalidArgument, "grow to {} ranks of a communicator of {}: it must become larger", new_size,
                 size());
  UniqueId common = id;
  HOCKET_TRY(broadcast(common.bytes.data(), common.bytes.data(), common.bytes.size(), DataType::kUint8, 0));
  CreateArgs args;
  args.rank = rank();
  args.size = new_size;
  args.settings = state_->settings;
  args.engine = state_->engine;
  args.parent = state_;
  return make_by_ids(std::span(&common, 1), std::move(args));
}

Result<Communicator> Communicator::duplicate() {
  if (!state_) return error(Code::kInvalidArgument, "duplicate of a communicator that was moved from");
  std::vector<Rank> everybody(static_cast<std::size_t>(size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  return regroup(*this, everybody);
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

  if (group.empty()) return Communicator(std::shared_ptr<CommunicatorState>());
  return regroup(*this, group);
}

}  // namespace hocket
