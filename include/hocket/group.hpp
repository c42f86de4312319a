// SPDX-License-Identifier: Apache-2.0
// group.hpp: calls that belong together and may need each other to end.
//
//   Group group;                       // calls of this thread are kept from here on
//   comm.send(right, n, type, next);   // returns at once
//   comm.receive(left, n, type, previous);
//   Status status = group.end();       // runs them
//
// Without a group, a send returns when its receiver has taken the data, so two ranks that first send to each other wait
// for ever; in a group all sends and receives progress side by side, whatever their order. Sends and receives of one
// pair meet in their order. A rank may send to itself in a group. Collectives of the group run in their order on each
// communicator; different communicators progress side by side, so ranks may name them in different orders.
// A collective runs before the group's sends and receives on its communicator.
// Next stop: core/group.cpp.
#pragma once

#include "hocket/communicator.hpp"
#include "hocket/status.hpp"

namespace [[gnu::visibility("default")]] hocket {

/// Keeps the calls that this thread makes on any communicator until end(). Groups may be nested: the outermost end()
/// runs all. A call that is refused for its arguments is refused at once, and the group's end then runs nothing and
/// returns that error. Not copyable; ends on the thread that began it.
class Group {
 public:
  Group() noexcept;
  /// Without end() before: what was kept is dropped, and nothing has run.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Runs what was kept. Calls without a stream have ended when this returns; calls given streams are queued on them,
  /// those of one communicator and one stream together. The first error of any of them. Inner groups: ok at once.
  Status end();

 private:
  bool open_ = true;
};

}  // namespace gnu::visibility("default")]]hocket
