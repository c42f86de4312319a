// SPDX-License-Identifier: Apache-2.0
// huge.cpp: counts beyond 2^32 bytes, where an index in 32 bits or a signed length would show.
//
// A Vast buffer is many gigabytes of addresses over one mebibyte of memory, mapped again and again: it holds the same
// byte everywhere, and whatever is written to it can only be that byte again. Around the places that matter (its ends,
// 2^31, 2^32, those of the other ranks' parts) it has windows with memory of their own, whose bytes depend on their
// place; there the result is compared. A call of 5 GiB so needs a few MiB.
#include "matrix/huge.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/os/clock.hpp"
#include "base/os/unique_fd.hpp"
#include "base/status.hpp"
#include "matrix/values.hpp"
#include "matrix/world.hpp"

namespace hocket::matrix {
namespace {

constexpr std::uint64_t kMiB = 1 << 20, kGiB = 1 << 30;
constexpr std::uint64_t kBody = 16 * kMiB;    // the memory under all that is no window
constexpr std::uint64_t kWindow = 256 << 10;  // on each side of a place
constexpr std::byte kPlain{0x11};

using Places = std::vector<std::uint64_t>;

class Vast {
 public:
  static Result<std::unique_ptr<Vast>> make(std::uint64_t bytes, const Places& places) {
    std::unique_ptr<Vast> vast(new Vast(bytes));
    HOCKET_TRY(vast->map(places));
    return vast;
  }
  ~Vast() {
    if (data_ != nullptr) ::munmap(data_, mapped_);
  }
  Vast(const Vast&) = delete;
  Vast& operator=(const Vast&) = delete;

  std::byte* data() const { return data_; }
  const std::vector<std::pair<std::uint64_t, std::uint64_t>>& windows() const { return windows_; }

 private:
  explicit Vast(std::uint64_t bytes) : bytes_(bytes), mapped_((bytes + kBody - 1) / kBody * kBody) {}

  Status map(const Places& places) {
    os::UniqueFd body(::memfd_create("hocket-matrix", MFD_CLOEXEC));
    if (!body || ::ftruncate(body.get(), static_cast<off_t>(kBody)) < 0)
      return system_error(Code::kSystem, errno, "memfd_create");
    void* const all = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return system_error(Code::kOutOfMemory, errno, "mmap of {} bytes", mapped_);
    data_ = static_cast<std::byte*>(all);
    for (std::uint64_t at = 0; at < mapped_; at += kBody) {
      if (::mmap(data_ + at, kBody, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, body.get(), 0) == MAP_FAILED)
        return system_error(Code::kSystem, errno, "mmap at {}", at);
    }
    std::memset(data_, static_cast<int>(kPlain), kBody);
    for (const std::uint64_t place : places) {
      const std::uint64_t from = place > kWindow ? (place - kWindow) / 4096 * 4096 : 0;
      const std::uint64_t to = std::min(mapped_, (place + kWindow) / 4096 * 4096);
      if (from >= to) continue;
      // Windows may overlap: those that do become one.
      if (!windows_.empty() && from <= windows_.back().second) {
        windows_.back().second = std::max(windows_.back().second, to);
      } else {
        windows_.emplace_back(from, to);
      }
    }
    for (const auto& [from, to] : windows_) {
      if (::mmap(data_ + from, to - from, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
          MAP_FAILED)
        return system_error(Code::kSystem, errno, "mmap of a window at {}", from);
    }
    return {};
  }

  const std::uint64_t bytes_, mapped_;
  std::byte* data_ = nullptr;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> windows_;
};

// The byte of rank `from` at `index` of its input, whose windows are `windows`.
std::byte byte_of(const Vast& input, Rank from, std::uint64_t index) {
  for (const auto& [begin, end] : input.windows())
    if (index >= begin && index < end)
      return static_cast<std::byte>(mixed(index ^ (static_cast<std::uint64_t>(from + 1) << 56)));
  return kPlain;
}

// What is in the output from byte `output` on: `count` bytes of `from` from `input` on, or of both added.
struct Part {
  std::uint64_t output, count;
  Rank from;
  std::uint64_t input;
};
constexpr Rank kBoth = -1;

// One call with its lengths in bytes. Layouts are the same on both ranks but for what `parts` says.
struct Huge {
  const char* name;
  bool is_short;
  std::uint64_t input, output;
  std::vector<Part> (*parts)(Rank me);
  Status (*call)(Communicator&, const std::byte* in, std::byte* out);
};

constexpr std::uint64_t kSend = 5 * kGiB + 7, kGather = 2 * kGiB + 5, kReduced = 4 * kGiB + 3;
// all_to_all_v of int32: parts of a few elements, far apart.
constexpr std::size_t kFar[] = {(std::size_t{1} << 30) - 3, (std::size_t{1} << 30) + 100'001};  // elements: 2^32 bytes
constexpr std::size_t kFew[] = {101, 50'003};

const Huge kHuge[] = {
    {"send and receive of 5 GiB + 7", true, kSend, kSend,
     [](Rank me) {
       return me == 1 ? std::vector<Part>{{0, kSend, 0, 0}} : std::vector<Part>{};
     },
     [](Communicator& comm, const std::byte* in, std::byte* out) {
       return comm.rank() == 0 ? comm.send(in, kSend, DataType::kUint8, 1)
                               : comm.receive(out, kSend, DataType::kUint8, 0);
     }},
    {"all_to_all_v of parts beyond 2^32", true, (kFar[1] + kFew[1]) * 4, (kFar[1] + kFew[1]) * 4,
     [](Rank me) {
       // Rank r sends kFew[p ^ r] elements from kFar[p] on to p; they come to kFar[1 - r].
       std::vector<Part> parts;
       for (Rank r = 0; r < 2; ++r) parts.push_back({kFar[1 - r] * 4, kFew[me ^ r] * 4, r, kFar[me] * 4});
       return parts;
     },
     [](Communicator& comm, const std::byte* in, std::byte* out) {
       const auto me = static_cast<std::size_t>(comm.rank());
       const std::size_t counts[] = {kFew[me], kFew[1 - me]}, to[] = {kFar[1], kFar[0]};
       return comm.all_to_all_v(in, counts, out, counts, DataType::kInt32, kFar, to);
     }},
    {"all_gather of 2 x (2 GiB + 5)", false, kGather, 2 * kGather,
     [](Rank) {
       return std::vector<Part>{{0, kGather, 0, 0}, {kGather, kGather, 1, 0}};
     },
     [](Communicator& comm, const std::byte* in, std::byte* out) {
       return comm.all_gather(in, out, kGather, DataType::kInt8);
     }},
    {"reduce_scatter of 2 x (2 GiB + 5)", false, 2 * kGather, kGather,
     [](Rank me) {
       return std::vector<Part>{{0, kGather, kBoth, static_cast<std::uint64_t>(me) * kGather}};
     },
     [](Communicator& comm, const std::byte* in, std::byte* out) {
       return comm.reduce_scatter(in, out, kGather, DataType::kInt8, ReduceOp::kSum);
     }},
    {"broadcast of 4 GiB + 3", false, kReduced, kReduced,
     [](Rank) {
       return std::vector<Part>{{0, kReduced, 1, 0}};
     },
     [](Communicator& comm, const std::byte* in, std::byte* out) {
       return comm.broadcast(in, out, kReduced, DataType::kUint8, 1);
     }},
    {"all_reduce of 4 GiB + 3", false, kReduced, kReduced,
     [](Rank) {
       return std::vector<Part>{{0, kReduced, kBoth, 0}};
     },
     [](Communicator& comm, const std::byte* in, std::byte* out) {
       return comm.all_reduce(in, out, kReduced, DataType::kInt8, ReduceOp::kSum);
     }},
};

Status run_one(const Huge& huge, Wire wire) {
  // Windows at all that may be off by one, in both buffers, and where one's lie in the other.
  std::set<std::uint64_t> outputs = {0, 2 * kGiB, 4 * kGiB, huge.output};
  std::set<std::uint64_t> inputs = {0, 2 * kGiB, 4 * kGiB, huge.input};
  for (int twice = 0; twice < 2; ++twice) {
    for (Rank me = 0; me < 2; ++me) {
      for (const Part& part : huge.parts(me)) {
        outputs.insert({part.output, part.output + part.count});
        inputs.insert({part.input, part.input + part.count});
        for (const std::uint64_t at : std::vector(inputs.begin(), inputs.end()))
          if (at >= part.input && at < part.input + part.count) outputs.insert(part.output + at - part.input);
        for (const std::uint64_t at : std::vector(outputs.begin(), outputs.end()))
          if (at >= part.output && at < part.output + part.count) inputs.insert(part.input + at - part.output);
      }
    }
  }

  WorldOptions options;
  options.wire = wire;
  options.ranks = 2;
  options.settings.timeout = std::chrono::seconds(300);
  World world(options);
  return world.run([&](Communicator& comm) -> Status {
    const Rank me = comm.rank();
    HOCKET_ASSIGN(const auto input, Vast::make(huge.input, Places(inputs.begin(), inputs.end())));
    HOCKET_ASSIGN(const auto output, Vast::make(huge.output, Places(outputs.begin(), outputs.end())));
    for (const auto& [from, to] : input->windows())
      for (std::uint64_t i = from; i < to; ++i) input->data()[i] = byte_of(*input, me, i);
    // A part that is added is not kPlain but twice that, in all of the body.
    HOCKET_TRY(huge.call(comm, input->data(), output->data()));
    std::uint64_t compared = 0;
    for (const Part& part : huge.parts(me)) {
      const auto wanted = [&](std::uint64_t i) {
        if (part.from != kBoth) return byte_of(*input, part.from, part.input + i);
        return static_cast<std::byte>(static_cast<unsigned>(byte_of(*input, 0, part.input + i)) +
                                      static_cast<unsigned>(byte_of(*input, 1, part.input + i)));
      };
      for (const auto& [from, to] : output->windows()) {
        for (std::uint64_t at = std::max(from, part.output); at < std::min(to, part.output + part.count); ++at) {
          ++compared;
          if (output->data()[at] != wanted(at - part.output))
            return error(Code::kInternal, "rank {}: byte {} of the output is {:#x}, not {:#x}", me, at,
                         static_cast<int>(output->data()[at]), static_cast<int>(wanted(at - part.output)));
        }
      }
    }
    // Beyond the parts a window is as it was.
    for (const auto& [from, to] : output->windows()) {
      for (std::uint64_t at = from; at < to; ++at) {
        const auto parts = huge.parts(me);
        const bool in_part = std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
          return at >= part.output && at < part.output + part.count;
        });
        if (!in_part && output->data()[at] != std::byte{0})
          return error(Code::kInternal, "rank {}: byte {} beyond the output was written", me, at);
      }
    }
    if (!huge.parts(me).empty() && compared < kWindow / 8)
      return error(Code::kInternal, "only {} bytes were compared", compared);
    return comm.barrier();
  });
}

}  // namespace

int run_huge(bool only_short) {
  int cases = 0;
  for (const Wire wire : {Wire::kLocal, Wire::kShm}) {
    for (const Huge& huge : kHuge) {
      if (only_short && !huge.is_short) continue;
      if (only_short && wire == Wire::kLocal && cases > 0) continue;
      const std::int64_t start = os::now_ns();
      const Status status = run_one(huge, wire);
      if (!status.ok()) {
        print(stderr, "hocket_matrix: WRONG, {}, 2 ranks over {}: {}\n", huge.name, name_of(wire), status.to_string());
        return 1;
      }
      print(stdout, "{:<36} {:<6} right, {:.1f} s\n", huge.name, name_of(wire),
            static_cast<double>(os::now_ns() - start) * 1e-9);
      std::fflush(stdout);
      ++cases;
    }
  }
  print(stdout, "hocket_matrix: {} huge cases are right\n", cases);
  return 0;
}

}  // namespace hocket::matrix
