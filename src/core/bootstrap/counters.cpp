// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/counters.hpp"

#include "base/format.hpp"

namespace hocket {

std::string BootstrapCounters::to_text() const {
  return format("{} host{}, {} exchanges, {} rounds, {} messages with {} bytes sent, {} with {} received{}", hosts,
                hosts == 1 ? "" : "s", exchanges, rounds, frames.messages_sent, frames.bytes_sent,
                frames.messages_received, frames.bytes_received, leader ? ", leader of its host" : "");
}

}  // namespace hocket
