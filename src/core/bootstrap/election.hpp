// SPDX-License-Identifier: Apache-2.0
// election.hpp: which process of a host leads. The one that gets the host's name first; the others find it there.
#pragma once

#include <optional>
#include <string>

#include "base/os/handshake.hpp"
#include "base/os/socket.hpp"
#include "core/bootstrap/callers.hpp"
#include "core/bootstrap/frames.hpp"
#include "hocket/settings.hpp"

namespace hocket {

/// This process leads, and others will come to `name`; or it found its `leader`.
struct Elected {
  std::optional<os::UnixListener> name;
  std::optional<FrameStream> leader;
};

/// Tries until `callers` want no more. `self` is this process in texts. Errors: theirs, kTimeout, kMismatch, kAborted,
/// kOutOfMemory, kSystem.
Result<Elected> elect(const Secret& secret, const Settings& settings, const os::Hello& hello, const std::string& self,
                      const Callers& callers, const os::AbortFlag& stop);

}  // namespace hocket
