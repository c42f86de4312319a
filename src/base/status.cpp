// SPDX-License-Identifier: Apache-2.0
#include "base/status.hpp"

#include <cstdio>
#include <cstdlib>

namespace hocket {

std::string_view to_string(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kUnsupported: return "unsupported";
    case Code::kOutOfMemory: return "out of memory";
    case Code::kSystem: return "system error";
    case Code::kPeerLost: return "peer lost";
    case Code::kTimeout: return "timeout";
    case Code::kMismatch: return "mismatch";
    case Code::kAborted: return "aborted";
    case Code::kInternal: return "internal error";
  }
  return "unknown error";
}

Status::Status(Code code, std::string text) {
  if (code != Code::kOk) state_ = std::make_shared<const State>(State{code, std::move(text)});
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(hocket::to_string(code())) + ": " + std::string(text());
}

namespace detail {

void value_of_an_error(const Status& status) {
  std::fprintf(stderr, "hocket: value() of a failed Result: %s\n", status.to_string().c_str());
  std::abort();
}

}  // namespace detail
}  // namespace hocket
