// SPDX-License-Identifier: Apache-2.0
#include "core/trace.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/status.hpp"
#include "topo/graph.hpp"

namespace hocket {
namespace {

constexpr std::string_view kOpening = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
constexpr std::string_view kClosing = "\n]}\n";

Status write_at(int fd, std::string_view text, std::uint64_t offset, std::string_view path) {
  while (!text.empty()) {
    const ssize_t n = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(Code::kSystem, errno, "HOCKET_TRACE: writing {}", path);
    text.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

// Microseconds, as the format wants them.
std::string microseconds(std::int64_t ns) {
  return format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

}  // namespace

Result<std::unique_ptr<TraceFile>> TraceFile::create(const std::string& path, int rank, std::string_view process) {
  os::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!fd) return system_error(Code::kSystem, errno, "HOCKET_TRACE: {} cannot be written", path);
  // Two processes may both be a rank 0: of two jobs, or of communicators that not all processes are in.
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return error(
        Code::kSystem,
        "HOCKET_TRACE: {} is being written by another rank {}: put {{pid}} into the name, so that each process "
        "has a file of its own",
        path, rank);
  if (::ftruncate(fd.get(), 0) != 0 && errno != EINVAL)  // a pipe or device has no length
    return system_error(Code::kSystem, errno, "HOCKET_TRACE: {} cannot be emptied", path);
  std::unique_ptr<TraceFile> file(new TraceFile(std::move(fd), path, rank));
  file->pending_ = kOpening;
  file->append(format("{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{},\"args\":{{\"name\":{}}}}}", rank,
                      topo::json_string(process)));
  file->append(
      format("{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{0},\"args\":{{\"sort_index\":{0}}}}}", rank));
  HOCKET_TRY(file->write());
  return file;
}

void TraceFile::append(std::string_view event) {
  if (full_) return;
  if (bytes_ + pending_.size() + event.size() > kMostBytes) {
    full_ = true;
    HOCKET_LOG(LogLevel::kWarn, "HOCKET_TRACE: {} has {} MiB, what follows is left out", path_, kMostBytes >> 20);
    return;
  }
  pending_ += first_ ? "\n" : ",\n";
  pending_ += event;
  first_ = false;
}

void TraceFile::name_track(int track, std::string_view name) {
  append(format("{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}", rank_,
                track, topo::json_string(name)));
}

void TraceFile::add(int track, const TraceSlice& slice, std::int64_t ahead_ns) {
  const std::string where = format("\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}", rank_, track,
                                   microseconds(slice.begin_ns - ahead_ns),
                                   microseconds(std::max<std::int64_t>(slice.end_ns - slice.begin_ns, 0)));
  if (slice.is_wait) {
    append(
        format("{{\"name\":\"wait for rank {0}\",\"cat\":\"wait\",{1},\"args\":{{\"peer\":{0},\"for\":\"{2}\","
               "\"channel\":{3},\"sequence\":{4}}}}}",
               slice.peer, where, slice.for_data ? "data" : "credit", slice.channel, slice.number));
    return;
  }
  RecordedCall call;
  if (!unpack(slice.what, slice.root_tile, &call)) return;
  // Only what the call has: a barrier moves nothing, a broadcast reduces nothing.
  std::string what;
  if (call.collective == Collective::kExchange) {
    what = format(",\"sends\":{},\"receives\":{}", slice.count & 0xffffffffu, slice.count >> 32);
  } else if (call.collective != Collective::kBarrier) {
    what = format(",\"count\":{},\"type\":\"{}\"", slice.count, to_string(call.type));
  }
  if (reduces(call.collective)) what += format(",\"op\":\"{}\"", to_string(call.op));
  if (call.root >= 0) what += format(",\"root\":{}", call.root);
  append(
      format("{{\"name\":\"{}\",\"cat\":\"call\",{},\"args\":{{\"sequence\":{}{},\"algorithm\":\"{}\","
             "\"protocol\":\"{}\",\"tile_bytes\":{},\"ended\":\"{}\"}}}}",
             to_string(call.collective), where, slice.number, what, algorithms()[call.algorithm].name,
             to_string(call.protocol), call.tile_bytes, slice.failed ? "failed" : "done"));
}

void TraceFile::add_dropped(int track, std::uint64_t slices, std::int64_t at_ns) {
  append(
      format("{{\"name\":\"{} slices were dropped\",\"cat\":\"hocket\",\"ph\":\"i\",\"s\":\"t\",\"pid\":{},\"tid\":{},"
             "\"ts\":{}}}",
             slices, rank_, track, microseconds(at_ns)));
}

Status TraceFile::write() {
  if (pending_.empty()) return {};
  const std::uint64_t grown = bytes_ + pending_.size();
  pending_ += kClosing;
  // Over the closing brackets of the last time.
  const Status status = write_at(fd_.get(), pending_, bytes_, path_);
  pending_.clear();
  if (!status.ok()) {
    full_ = true;
    (void)write_at(fd_.get(), kClosing, bytes_, path_);
    (void)::ftruncate(fd_.get(), static_cast<off_t>(bytes_ + kClosing.size()));
    return status;
  }
  bytes_ = grown;
  return {};
}

}  // namespace hocket
