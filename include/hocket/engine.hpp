// SPDX-License-Identifier: Apache-2.0
// engine.hpp: what the communicators of a process share. Users seldom need it; tests make several to act as several
// processes.
#pragma once

#include <memory>
#include <string>

#include "hocket/settings.hpp"
#include "hocket/status.hpp"

namespace [[gnu::visibility("default")]] hocket {

/// One per process by default: made on first use, never destroyed at exit. Owns the memory that peers reach, one
/// connection per peer process and transport, the helper threads and the view of the machine. Any thread.
class Engine {
 public:
  static Result<std::shared_ptr<Engine>> create(const Settings& settings = {});
  /// The process's own.
  static Result<std::shared_ptr<Engine>> default_engine();

  virtual ~Engine() = default;

 protected:
  Engine() = default;
};

}  // namespace gnu::visibility("default")]]hocket
