// SPDX-License-Identifier: Apache-2.0
// pmix.cpp: ranks that Open MPI's mpirun or srun --mpi=pmix started: rank 0's id goes through PMIx put and fence.
//
// libpmix is looked up when it is needed; only its types come from its header. It is left again as soon as the id is
// known, so that nothing of it runs in the program, and mpirun does not take the end of a rank for a crash.
// Source: PMIx Standard 4.1, chapters 4 and 5.
#include "base/status.hpp"
#include "core/bootstrap/messages.hpp"
#include "core/launch/launchers.hpp"

#ifdef HOCKET_HAS_PMIX
#include <dlfcn.h>
#include <pmix.h>

#include <cstring>
#include <memory>
#include <mutex>
#endif

namespace hocket {

#ifdef HOCKET_HAS_PMIX
namespace {

// The functions used, looked up at run time. Never closed: its threads may outlive our use of it.
struct Pmix {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;

  static Result<Pmix> load() {
    void* library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      return error(Code::kUnsupported,
                   "PMIX_NAMESPACE is set, but libpmix.so.2 cannot be loaded ({}): apt-get install -y libpmix2",
                   ::dlerror());
    }
    Pmix pmix;
    const auto look = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    if (!look(pmix.init, "PMIx_Init") || !look(pmix.finalize, "PMIx_Finalize") || !look(pmix.put, "PMIx_Put") ||
        !look(pmix.commit, "PMIx_Commit") || !look(pmix.fence, "PMIx_Fence") || !look(pmix.get, "PMIx_Get") ||
        !look(pmix.error_string, "PMIx_Error_string")) {
      return error(Code::kUnsupported, "libpmix.so.2 lacks a function: {}", ::dlerror());
    }
    return pmix;
  }

  Status failed(std::string_view call, pmix_status_t status) const {
    return error(status == PMIX_ERR_TIMEOUT ? Code::kTimeout : Code::kSystem, "{}: {} ({})", call, error_string(status),
                 status);
  }
};

constexpr const char* kKey = "hocket.id";

void set_timeout(pmix_info_t& info, const Settings& settings) {
  info = {};
  std::strncpy(info.key, PMIX_TIMEOUT, sizeof info.key - 1);
  info.value.type = PMIX_INT;
  info.value.data.integer =
      static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(settings.start_timeout).count());
}

Result<std::vector<UniqueId>> put_and_get(const Pmix& pmix, const pmix_proc_t& self, const LaunchedRank& who,
                                          const Settings& settings) {
  std::optional<UniqueId> id;
  if (who.rank == 0) {
    HOCKET_ASSIGN(id, UniqueId::create(settings));
    std::string text = id->to_string();
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = text.data();
    if (const auto status = pmix.put(PMIX_GLOBAL, kKey, &value); status != PMIX_SUCCESS)
      return pmix.failed("PMIx_Put", status);
    if (const auto status = pmix.commit(); status != PMIX_SUCCESS) return pmix.failed("PMIx_Commit", status);
  }
  pmix_proc_t all{};
  std::memcpy(all.nspace, self.nspace, sizeof all.nspace);
  all.rank = PMIX_RANK_WILDCARD;
  pmix_info_t collect[2];
  set_timeout(collect[1], settings);
  collect[0] = {};
  std::strncpy(collect[0].key, PMIX_COLLECT_DATA, sizeof collect[0].key - 1);
  collect[0].value.type = PMIX_BOOL;
  collect[0].value.data.flag = true;
  if (const auto status = pmix.fence(&all, 1, collect, 2); status != PMIX_SUCCESS)
    return pmix.failed("PMIx_Fence", status);
  if (id) return std::vector<UniqueId>{*id};
  pmix_proc_t first = all;
  first.rank = 0;
  pmix_info_t timeout;
  set_timeout(timeout, settings);
  pmix_value_t* value = nullptr;
  if (const auto status = pmix.get(&first, kKey, &timeout, 1, &value); status != PMIX_SUCCESS || !value)
    return pmix.failed("PMIx_Get of rank 0's id", status);
  std::string text;
  if (value->type == PMIX_STRING && value->data.string) {
    text = value->data.string;
    std::free(value->data.string);
  }
  std::free(value);
  HOCKET_ASSIGN(id, UniqueId::from_string(text));
  return std::vector<UniqueId>{*id};
}

Result<std::vector<UniqueId>> meet(const LaunchedRank& who, const Settings& settings) {
  HOCKET_ASSIGN(const Pmix pmix, Pmix::load());
  pmix_proc_t self{};
  if (const auto status = pmix.init(&self, nullptr, 0); status != PMIX_SUCCESS) return pmix.failed("PMIx_Init", status);
  auto ids = put_and_get(pmix, self, who, settings);
  const auto status = pmix.finalize(nullptr, 0);
  if (ids.ok() && status != PMIX_SUCCESS) return pmix.failed("PMIx_Finalize", status);
  return ids;
}

}  // namespace
#endif

Result<std::optional<LaunchedRank>> launched_by_pmix(const Settings& settings) {
  if (!is_set("PMIX_NAMESPACE") || !is_set("PMIX_RANK")) return std::optional<LaunchedRank>();
  constexpr std::string_view kHint = "Open MPI's mpirun and srun --mpi=pmix say how many ranks there are by it";
  LaunchedRank who;
  who.launcher = "PMIx";
  const char* size_variable = is_set("OMPI_COMM_WORLD_SIZE") ? "OMPI_COMM_WORLD_SIZE" : "SLURM_STEP_NUM_TASKS";
  HOCKET_ASSIGN(who.size, number_of(size_variable, 1, kMostRanks, kHint));
  HOCKET_ASSIGN(who.rank, number_of("PMIX_RANK", 0, who.size - 1, kHint));
  who.local_rank = who.rank;
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    if (!is_set(name)) continue;
    HOCKET_ASSIGN(who.local_rank, number_of(name, 0, who.size - 1, kHint));
    break;
  }
#ifdef HOCKET_HAS_PMIX
  who.exchange = exchange_by_ids(who, settings, [=] { return meet(who, settings); });
  return std::optional<LaunchedRank>(std::move(who));
#else
  (void)settings;
  return error(
      Code::kUnsupported,
      "PMIx started this as rank {} of {}, but this hocket was built without PMIx's header: apt-get install -y "
      "libpmix-dev and build it again, or use another way to start (hocket run, HOCKET_RENDEZVOUS)",
      who.rank, who.size);
#endif
}

}  // namespace hocket
