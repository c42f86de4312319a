// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/connector.hpp"

#include <utility>

#include "base/status.hpp"

namespace hocket {

Status Connector::start(std::size_t count, std::function<Result<FrameStream>(std::size_t)> connect) {
  thread_.join();
  HOCKET_ASSIGN(thread_, os::Thread::start("hocket-connect", [this, count, connect = std::move(connect)] {
                  for (std::size_t i = 0; i < count; ++i) {
                    auto stream = connect(i);
                    const bool ok = stream.ok();
                    {
                      const std::lock_guard lock(mutex_);
                      connected_.push_back(std::move(stream));
                    }
                    wake_.wake();
                    if (!ok) return;
                  }
                }));
  left_ = count;
  return {};
}

std::optional<Result<FrameStream>> Connector::take() {
  std::optional<Result<FrameStream>> next;
  {
    const std::lock_guard lock(mutex_);
    if (connected_.empty()) return std::nullopt;
    next.emplace(std::move(connected_.front()));
    connected_.pop_front();
  }
  --left_;
  if (left_ == 0 || !next->ok()) thread_.join();  // it has nothing left to do; its owner may live on to the exit
  return next;
}

}  // namespace hocket
