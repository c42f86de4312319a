// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/bootstrap.hpp"

#include "base/status.hpp"
#include "core/bootstrap/node.hpp"

namespace hocket {

Result<std::shared_ptr<Bootstrap>> Bootstrap::join(std::span<const UniqueId> roots, Rank rank, int size,
                                                   const Settings& settings, const os::AbortFlag* abort) {
  HOCKET_ASSIGN(std::shared_ptr<Node> node, Node::of(roots, settings));
  const os::WaitLimits limits{.deadline = os::Deadline::after_or_never(settings.start_timeout), .abort = abort};
  HOCKET_TRY(node->join(rank, size, limits));
  return std::shared_ptr<Bootstrap>(new Bootstrap(std::move(node), rank, size, settings.start_timeout, abort));
}

Bootstrap::Bootstrap(std::shared_ptr<Node> node, Rank rank, int size, std::chrono::nanoseconds timeout,
                     const os::AbortFlag* abort)
    : node_(std::move(node)), rank_(rank), size_(size), timeout_(timeout), abort_(abort) {}

Bootstrap::~Bootstrap() = default;

Status Bootstrap::exchange(std::span<const std::byte> mine, std::span<std::byte> all) {
  return node_->exchange(rank_, mine, all, {.deadline = os::Deadline::after_or_never(timeout_), .abort = abort_});
}

BootstrapCounters Bootstrap::counters() const {
  return node_->counters();
}

Exchange exchange_of(std::shared_ptr<Bootstrap> bootstrap) {
  return [bootstrap = std::move(bootstrap)](std::span<const std::byte> mine, std::span<std::byte> all) {
    return bootstrap->exchange(mine, all);
  };
}

}  // namespace hocket
