// SPDX-License-Identifier: Apache-2.0
// exec/channel_key.hpp: the keys under which a channel's puts and signals travel. Both ends derive them from what both
// know; no two directions of channels between two processes share one.
#pragma once

#include <cstdint>

#include "hocket/types.hpp"
#include "transport/transport.hpp"

namespace hocket {

namespace detail {
/// `block` is that of the rank that is sent to: blocks start at pages, which names the rank within its process.
constexpr ChannelKey channel_key(std::uint64_t block, int channel, Rank from, bool credits) {
  return ChannelKey{(block >> 12) << 28 | std::uint64_t{static_cast<std::uint32_t>(from)} << 8 |
                    std::uint64_t{credits} << 7 | static_cast<std::uint64_t>(channel)};
}
}  // namespace detail

/// Data of channel `channel` from rank `from` to the rank whose block is at `to_block` in its process's arena.
constexpr ChannelKey data_key(std::uint64_t to_block, int channel, Rank from) {
  return detail::channel_key(to_block, channel, from, false);
}
/// Credits and grants, which travel the other way: from the channel's receiver `from` to its sender's block.
constexpr ChannelKey credit_key(std::uint64_t to_block, int channel, Rank from) {
  return detail::channel_key(to_block, channel, from, true);
}
/// What belongs to no channel: how a communicator ended.
constexpr ChannelKey control_key(std::uint64_t to_block, Rank from) {
  return detail::channel_key(to_block, 127, from, true);
}

}  // namespace hocket
