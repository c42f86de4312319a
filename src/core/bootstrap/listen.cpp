// SPDX-License-Identifier: Apache-2.0
#include "core/bootstrap/listen.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "base/status.hpp"

namespace hocket {

Result<os::NetListener> listen_on_this_host(const Settings& settings, os::PortRange ports,
                                            std::span<const os::NetAddress> more) {
  HOCKET_ASSIGN(const os::InterfaceFilter filter, os::InterfaceFilter::parse(settings.interfaces));
  HOCKET_ASSIGN(const os::PortRange by_settings, os::PortRange::parse(settings.ports));
  HOCKET_ASSIGN(const std::vector<os::NetCandidate> candidates, os::usable_candidates(filter));
  std::vector<os::NetAddress> addresses;
  for (const os::NetCandidate& c : candidates) {
    if (c.reach == os::NetReach::kLoopback && !addresses.empty()) break;
    addresses.push_back(c.address);
  }
  for (const os::NetAddress& extra : more) {
    if (std::none_of(addresses.begin(), addresses.end(), [&](const auto& a) { return a.bytes == extra.bytes; }))
      addresses.push_back(extra);
  }
  return os::NetListener::listen(addresses, ports.any() ? by_settings : ports);
}

os::UnixAddress meeting_place(const Secret& secret, std::string_view host_id) {
  constexpr std::string_view kLabel = "hocket host ";
  const Digest name =
      hmac_sha256(secret.bytes(), {std::as_bytes(std::span(kLabel)), std::as_bytes(std::span(host_id))});
  std::string text = "hocket-meet-";
  for (std::size_t i = 0; i < 16; ++i) text += format("{:02x}", static_cast<unsigned>(name[i]));
  return os::UnixAddress::abstract(std::move(text));
}

}  // namespace hocket
