// SPDX-License-Identifier: Apache-2.0
// core/stream.cpp: calls on a host stream, run in order by the engine's progress thread, which takes turns over all
// streams. Next stop: exec/executor.cpp.
#include "core/stream.hpp"

#include "base/status.hpp"
#include "core/progress.hpp"

namespace hocket {

/// The running side of a stream while it has work.
class StreamTask final : public ProgressTask {
 public:
  explicit StreamTask(std::shared_ptr<Stream::State> stream) : stream_(std::move(stream)) {}

  Poll poll() override {
    if (!has_call_) {
      const std::lock_guard lock(stream_->mutex);
      if (stream_->queue.empty()) {
        stream_->running = false;
        stream_->idle.notify_all();
        return Poll::kDone;
      }
      call_ = std::move(stream_->queue.front());
      stream_->queue.pop_front();
      has_call_ = true;
    }
    CommunicatorState& s = *call_.operation.communicator;
    if (ready_ == nullptr) {
      if (!s.turnstile.is_next(call_.ticket)) return Poll::kIdle;
      if (Status status = start(); !status.ok()) return finish(std::move(status));
      return Poll::kMoved;  // so that its bell is set before the thread sleeps
    }
    const Progress progress = s.executor->turn();
    if (progress != Progress::kWaiting) return finish(s.end(*ready_, progress));
    if (s.executor->moved()) {
      watch_->moved();
      if (s.observer) s.observer->moved(s.number_of(*ready_));
      return Poll::kMoved;
    }
    if (s.observer && !s.observer->is_still()) s.observer->still(s.executor->waiting());
    s.executor->before_sleep();
    if (s.executor->driving()) return s.check_ended() ? finish(s.end(*ready_, Progress::kFailed)) : Poll::kMoved;
    if (s.ended.load(std::memory_order_acquire) || os::now_ns() >= next_tick_) {
      if (!watch_->tick(s.executor->waiting())) return finish(s.end(*ready_, Progress::kFailed));
      next_tick_ = watch_->next().ns();
    }
    return Poll::kIdle;
  }

  void set_bell(std::uint32_t state) override {
    if (has_call_ && ready_ != nullptr)
      call_.operation.communicator->block().doorbell.state.exchange(state, std::memory_order_seq_cst);
    if (has_call_ && ready_ != nullptr && state == Doorbell::kAwake)
      call_.operation.communicator->executor->after_sleep();
  }

 private:
  Status start() {
    Operation& op = call_.operation;
    CommunicatorState& s = *op.communicator;
    if (s.check_ended()) return s.end_error_before(op.key);
    CallKey key = op.key;
    if (!op.uneven)
      key.symmetric =
          s.is_symmetric(op.buffers.input, op.buffers.input_bytes, op.buffers.output, op.buffers.output_bytes);
    HOCKET_ASSIGN(ReadyCall * ready, s.prepare(key, op.uneven.get()));
    ready_ = ready;
    watch_ = std::make_unique<Watch>(s);
    watch_->start(*ready_);
    next_tick_ = 0;
    s.begin(*ready_, op.buffers.input, op.buffers.output, op.reduction, op.uneven.get());
    return {};
  }

  Poll finish(Status status) {
    CommunicatorState& s = *call_.operation.communicator;
    if (watch_) watch_->moved();
    if (ready_ != nullptr) s.executor->after_sleep();
    s.block().doorbell.state.store(Doorbell::kAwake, std::memory_order_release);
    s.turnstile.leave(call_.ticket);
    if (!status.ok()) {
      const std::lock_guard lock(stream_->mutex);
      if (stream_->error.ok()) stream_->error = std::move(status);
    }
    ready_ = nullptr;
    watch_.reset();
    has_call_ = false;
    call_ = {};
    return Poll::kMoved;
  }

  std::shared_ptr<Stream::State> stream_;
  QueuedCall call_;
  bool has_call_ = false;
  ReadyCall* ready_ = nullptr;
  std::unique_ptr<Watch> watch_;
  std::int64_t next_tick_ = 0;
};

Status enqueue(const std::shared_ptr<Stream::State>& stream, Operation operation) {
  const std::shared_ptr<EngineCore> engine = operation.communicator->engine;
  bool start = false;
  {
    const std::lock_guard lock(stream->mutex);
    // The ticket is taken here, so that the order on the communicator is the order of the calls.
    const std::uint64_t ticket = operation.communicator->turnstile.take();
    stream->queue.push_back({std::move(operation), ticket});
    start = !std::exchange(stream->running, true);
  }
  if (!start) return {};
  Status status = engine->progress().submit(std::make_shared<StreamTask>(stream));
  if (!status.ok()) {
    // No thread can be had: take back what was queued, in order.
    const std::lock_guard lock(stream->mutex);
    for (QueuedCall& queued : stream->queue) {
      queued.operation.communicator->turnstile.wait(queued.ticket);
      queued.operation.communicator->turnstile.leave(queued.ticket);
    }
    stream->queue.clear();
    stream->running = false;
    if (stream->error.ok()) stream->error = status;
    stream->idle.notify_all();
  }
  return status;
}

Stream::Stream() : state_(std::make_shared<State>()) {}
Stream::~Stream() = default;
Stream::Stream(const Stream&) = default;
Stream& Stream::operator=(const Stream&) = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

Status Stream::synchronize() {
  if (!state_) return error(Code::kInvalidArgument, "synchronize of a stream that was moved from");
  if (state_->fork_mark.forked())
    return error(Code::kUnsupported, "synchronize in a forked child: its parent has the stream's thread");
  std::unique_lock lock(state_->mutex);
  state_->idle.wait(lock, [this] { return !state_->running; });
  return std::exchange(state_->error, Status());
}

bool Stream::idle() const {
  if (!state_) return true;
  const std::lock_guard lock(state_->mutex);
  return !state_->running;
}

}  // namespace hocket
