// SPDX-License-Identifier: Apache-2.0
// host_member.hpp: a process that another one of its host leads: it sends its ranks' parts, and gets the whole.
#pragma once

#include <string>

#include "core/bootstrap/callers.hpp"
#include "core/bootstrap/host_role.hpp"

namespace hocket {

class HostMember final : public HostRole {
 public:
  /// `callers` outlive this; `name` is this process in texts.
  HostMember(Callers& callers, std::string name, FrameStream leader)
      : callers_(callers), name_(std::move(name)), leader_(std::move(leader)) {}

  std::vector<FrameStream*> streams() override { return {&leader_}; }
  Status work() override;
  void tell(const Status& failure) override { leader_.send_error(failure); }
  bool flushed() const override { return leader_.flushed(); }
  bool leads() const override { return false; }
  int hosts() const override { return hosts_; }

 private:
  Status receive();
  Status send_part();

  Callers& callers_;
  const std::string name_;
  FrameStream leader_;
  int hosts_ = 0;
  bool ready_ = false;
  std::uint64_t sequence_ = 1;  // of the exchange under way; the meeting was 0
  bool part_sent_ = false;
  bool timeout_sent_ = false;
};

}  // namespace hocket
