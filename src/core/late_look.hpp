// SPDX-License-Identifier: Apache-2.0
// core/late_look.hpp: looks after calls that returned before all that they sent was taken.
//
// A broadcast's root hears nothing from the ranks it sends to, and waiting until they took it would cost it a round
// trip in each call. So it returns, as far ahead as slots allow, and whether the others made the same calls is looked
// up on their call boards: here, every 50 ms, while its rank makes no other call; by Watch while it does; and when a
// header does not fit. HOCKET_DRAIN=1 makes calls wait instead. Next stop: core/diagnosis.cpp, look_back().
#pragma once

#include <cstdint>
#include <mutex>

#include "core/communicator_state.hpp"
#include "core/progress.hpp"

namespace hocket {

class LateLook final : public ProgressTask {
 public:
  explicit LateLook(CommunicatorState& communicator) : communicator_(&communicator) {}

  Poll poll() override;
  void set_bell(std::uint32_t) override {}
  /// The communicator goes away. Waits while poll() looks at it. The task itself may live on.
  void leave();
  /// poll() has ended it, or will when it is next called. Under the communicator's turn.
  bool over() const { return over_; }

 private:
  std::mutex mutex_;
  CommunicatorState* communicator_;  // under mutex_
  std::int64_t next_ns_ = 0;
  int quiet_ = 0;      ///< looks since there was last something to look at
  bool over_ = false;  // under the turn
};

}  // namespace hocket
