// SPDX-License-Identifier: Apache-2.0
// core/create.cpp: the ways to a communicator: by the caller's exchange, by a unique id, from the environment; at once
// or pending. Next stop: core/membership.cpp, and before it core/bootstrap/bootstrap.hpp for ids, core/launch.hpp for
// the environment.
#include <condition_variable>
#include <thread>

#include "base/log.hpp"
#include "base/status.hpp"
#include "core/bootstrap/bootstrap.hpp"
#include "core/communicator_state.hpp"
#include "core/launch.hpp"
#include "hocket/unique_id.hpp"

namespace hocket {

Result<Communicator> make_by_ids(std::span<const UniqueId> ids, CreateArgs args) {
  HOCKET_ASSIGN(const std::shared_ptr<Bootstrap> bootstrap,
                Bootstrap::join(ids, args.rank, args.size, args.settings, args.abort));
  args.exchange = exchange_of(bootstrap);
  HOCKET_ASSIGN(auto made, make_communicator(std::move(args)));
  made->meeting = bootstrap->counters().to_text();
  return Communicator(std::move(made));
}

Result<Communicator> Communicator::create(Rank rank, int size, Exchange exchange, const Settings& settings,
                                          std::shared_ptr<Engine> engine) {
  CreateArgs args;
  args.rank = rank;
  args.size = size;
  args.exchange = std::move(exchange);
  args.settings = settings;
  HOCKET_ASSIGN(args.engine, EngineCore::of(engine));
  HOCKET_ASSIGN(auto made, make_communicator(std::move(args)));
  return Communicator(std::move(made));
}

Result<Communicator> Communicator::create(const UniqueId& id, Rank rank, int size, const Settings& settings,
                                          std::shared_ptr<Engine> engine) {
  return create(std::span(&id, 1), rank, size, settings, std::move(engine));
}

Result<Communicator> Communicator::create(std::span<const UniqueId> ids, Rank rank, int size, const Settings& settings,
                                          std::shared_ptr<Engine> engine) {
  CreateArgs args{.rank = rank, .size = size, .exchange = {}, .settings = settings, .engine = {}};
  HOCKET_ASSIGN(args.engine, EngineCore::of(engine));
  return make_by_ids(ids, std::move(args));
}

Result<Communicator> Communicator::from_environment() {
  HOCKET_ASSIGN(const Settings settings, Settings::from_environment());
  return from_environment(settings);
}

Result<Communicator> Communicator::from_environment(const Settings& settings, std::shared_ptr<Engine> engine) {
  HOCKET_ASSIGN(std::optional<LaunchedRank> launched, launched_from_environment(settings));
  if (!launched) return create(0, 1, {}, settings, std::move(engine));
  return create(launched->rank, launched->size, std::move(launched->exchange), settings, std::move(engine));
}

// A communicator that is being made.

struct PendingCommunicator::State {
  explicit State(os::AbortFlag flag) : abort(std::move(flag)) {}
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool taken = false;
  Result<Communicator> result = Status(Code::kInternal, "not made yet");
  os::AbortFlag abort;
};

PendingCommunicator::PendingCommunicator(std::shared_ptr<State> state) : state_(std::move(state)) {}
PendingCommunicator::PendingCommunicator(PendingCommunicator&&) noexcept = default;
PendingCommunicator& PendingCommunicator::operator=(PendingCommunicator&&) noexcept = default;
PendingCommunicator::~PendingCommunicator() {
  if (state_) abort();
}

namespace {

PendingCommunicator start_pending(std::function<Result<Communicator>(const os::AbortFlag* abort)> make_one) {
  auto flag = os::AbortFlag::create();
  if (!flag.ok()) return PendingCommunicator(nullptr);
  auto state = std::make_shared<PendingCommunicator::State>(std::move(*flag));
  const auto make = [state, make_one = std::move(make_one)] {
    Result<Communicator> result = make_one(&state->abort);
    const std::lock_guard lock(state->mutex);
    if (state->done) return;  // aborted: what was made ends here
    state->result = std::move(result);
    state->done = true;
    state->changed.notify_all();
  };
  try {
    std::thread(make).detach();
  } catch (const std::system_error& e) {
    state->result = error(Code::kOutOfMemory, "no thread for a pending communicator: {}", e.what());
    state->done = true;
  }
  return PendingCommunicator(std::move(state));
}

}  // namespace

PendingCommunicator Communicator::create_pending(Rank rank, int size, Exchange exchange, const Settings& settings,
                                                 std::shared_ptr<Engine> engine) {
  return start_pending([=, exchange = std::move(exchange)](const os::AbortFlag* abort) -> Result<Communicator> {
    CreateArgs args{
        .rank = rank, .size = size, .exchange = exchange, .settings = settings, .engine = {}, .abort = abort};
    HOCKET_ASSIGN(args.engine, EngineCore::of(engine));
    HOCKET_ASSIGN(auto made, make_communicator(std::move(args)));
    return Communicator(std::move(made));
  });
}

PendingCommunicator Communicator::create_pending(const UniqueId& id, Rank rank, int size, const Settings& settings,
                                                 std::shared_ptr<Engine> engine) {
  return start_pending([=](const os::AbortFlag* abort) -> Result<Communicator> {
    CreateArgs args{.rank = rank, .size = size, .exchange = {}, .settings = settings, .engine = {}, .abort = abort};
    HOCKET_ASSIGN(args.engine, EngineCore::of(engine));
    return make_by_ids(std::span(&id, 1), std::move(args));
  });
}

bool PendingCommunicator::ready() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

Result<Communicator> PendingCommunicator::wait() {
  if (!state_)
    return error(Code::kInvalidArgument,
                 "wait on a pending communicator that was moved from or could get no descriptor");
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->done; });
  if (std::exchange(state_->taken, true)) return error(Code::kInvalidArgument, "wait was called before");
  return std::move(state_->result);
}

void PendingCommunicator::abort() {
  if (!state_) return;
  state_->abort.raise();
  const std::lock_guard lock(state_->mutex);
  if (state_->done) return;
  state_->result = error(Code::kAborted, "the creation was aborted");
  state_->done = true;
  state_->changed.notify_all();
}

}  // namespace hocket
