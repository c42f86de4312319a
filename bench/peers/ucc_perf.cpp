// SPDX-License-Identifier: Apache-2.0
// ucc_perf.cpp: the collectives of UCC, for bench/compare, which builds it where UCC is found. Operations are
// persistent ones: UCC's fastest form. Its ranks meet over the harness's segment.
#include <ucc/api/ucc.h>

#include "harness.hpp"

namespace {

using namespace hocket::peers;

void check(ucc_status_t status, const char* what) {
  if (status < 0) give_up(std::string("ucc: ") + what + ": " + ucc_status_string(status));
}

// UCC wants an all-gather that does not block; ours does, and is done when it is asked for the first time.
struct Exchange {
  Meeting* meeting;
};
ucc_status_t exchange_start(void* mine, void* all, std::size_t bytes, void* info, void** request) {
  static_cast<Exchange*>(info)->meeting->all_gather(mine, bytes, all);
  *request = info;
  return UCC_OK;
}
ucc_status_t exchange_test(void*) {
  return UCC_OK;
}
ucc_status_t exchange_end(void*) {
  return UCC_OK;
}

ucc_datatype_t type_of(Type type) {
  switch (type) {
    case Type::kFloat64: return UCC_DT_FLOAT64;
    case Type::kInt32: return UCC_DT_INT32;
    case Type::kInt64: return UCC_DT_INT64;
    default: return UCC_DT_FLOAT32;
  }
}

class Ucc : public Library {
 public:
  explicit Ucc(Meeting& meeting)
      : exchange_{&meeting}, ranks_(static_cast<std::size_t>(meeting.ranks())), crowded_(meeting.crowded()) {
    ucc_lib_params_t library{};
    library.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE;
    library.thread_mode = UCC_THREAD_SINGLE;
    ucc_lib_config_h library_config;
    check(ucc_lib_config_read(nullptr, nullptr, &library_config), "configuration");
    check(ucc_init(&library, library_config, &library_), "init");
    ucc_lib_config_release(library_config);

    ucc_oob_coll_t oob{};
    oob.allgather = exchange_start;
    oob.req_test = exchange_test;
    oob.req_free = exchange_end;
    oob.coll_info = &exchange_;
    oob.n_oob_eps = static_cast<std::uint32_t>(meeting.ranks());
    oob.oob_ep = static_cast<std::uint32_t>(meeting.rank());
    ucc_context_params_t context{};
    context.mask = UCC_CONTEXT_PARAM_FIELD_OOB;
    context.oob = oob;
    ucc_context_config_h context_config;
    check(ucc_context_config_read(library_, nullptr, &context_config), "context configuration");
    check(ucc_context_create(library_, &context, context_config, &context_), "context");
    ucc_context_config_release(context_config);

    ucc_team_params_t team{};
    team.mask = UCC_TEAM_PARAM_FIELD_OOB | UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE;
    team.oob = oob;
    team.ep = static_cast<std::uint64_t>(meeting.rank());
    team.ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG;
    check(ucc_team_create_post(&context_, 1, &team, &team_), "team");
    ucc_status_t status;
    while ((status = ucc_team_create_test(team_)) == UCC_INPROGRESS) ucc_context_progress(context_);
    check(status, "team");
  }

  void begin(const Call& c) override {
    const auto buffer = [&](ucc_coll_buffer_info_t& info, std::byte* memory, std::size_t count) {
      info.buffer = memory;
      info.count = count;
      info.datatype = type_of(c.type);
      info.mem_type = UCC_MEMORY_TYPE_HOST;
    };
    const bool wide_input = c.what == What::kReduceScatter || c.what == What::kAllToAll;
    const bool wide_output = c.what == What::kAllGather || c.what == What::kAllToAll;
    ucc_coll_args_t args{};
    args.mask = UCC_COLL_ARGS_FIELD_FLAGS;
    args.flags = UCC_COLL_ARGS_FLAG_PERSISTENT;
    args.op = UCC_OP_SUM;
    args.root = 0;
    buffer(args.src.info, c.what == What::kBroadcast ? c.output : c.input, c.count * (wide_input ? ranks_ : 1));
    if (c.what != What::kBroadcast) buffer(args.dst.info, c.output, c.count * (wide_output ? ranks_ : 1));
    switch (c.what) {
      case What::kAllReduce: args.coll_type = UCC_COLL_TYPE_ALLREDUCE; break;
      case What::kAllGather: args.coll_type = UCC_COLL_TYPE_ALLGATHER; break;
      case What::kReduceScatter: args.coll_type = UCC_COLL_TYPE_REDUCE_SCATTER; break;
      case What::kAllToAll: args.coll_type = UCC_COLL_TYPE_ALLTOALL; break;
      case What::kBroadcast: args.coll_type = UCC_COLL_TYPE_BCAST; break;
    }
    check(ucc_collective_init(&args, &request_, team_), "collective");
  }
  void finish() override { check(ucc_collective_finalize(request_), "finalize"); }
  void call(const Call&) override {
    check(ucc_collective_post(request_), "post");
    ucc_status_t status;
    for (unsigned turns = 1; (status = ucc_collective_test(request_)) > 0; ++turns) {
      ucc_context_progress(context_);
      if (crowded_ && turns % 32 == 0) sched_yield();
    }
    check(status, "test");
  }
  void progress() override { ucc_context_progress(context_); }

 private:
  Exchange exchange_;
  const std::size_t ranks_;
  const bool crowded_;
  ucc_lib_h library_{};
  ucc_context_h context_{};
  ucc_team_h team_{};
  ucc_coll_req_h request_{};
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  return start_ranks(options, [&](int rank) {
    Meeting meeting(options.segment, rank, options.ranks);
    place(rank, options.ranks, true);
    Ucc library(meeting);
    Server(library, meeting, options).run();
    std::_Exit(0);  // its teardown wants all ranks
  });
}
