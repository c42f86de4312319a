// SPDX-License-Identifier: Apache-2.0
// hocket.hpp: everything, for users.
#pragma once

#if __cplusplus < 202002L
#error "hocket needs C++20: -std=c++20"
#endif

#include "hocket/communicator.hpp"
#include "hocket/engine.hpp"
#include "hocket/group.hpp"
#include "hocket/log.hpp"
#include "hocket/reduction.hpp"
#include "hocket/settings.hpp"
#include "hocket/status.hpp"
#include "hocket/tuner.hpp"
#include "hocket/types.hpp"
#include "hocket/unique_id.hpp"
