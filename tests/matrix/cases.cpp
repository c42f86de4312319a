// SPDX-License-Identifier: Apache-2.0
#include "matrix/cases.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/format.hpp"
#include "base/status.hpp"

namespace hocket::matrix {
namespace {

constexpr std::size_t kGuard = 64;
constexpr std::byte kUntouched{0xa5};
constexpr std::size_t kMostSmallCount = 1025;
constexpr std::size_t kLargeCounts[] = {4097, 65'537, 262'145, 1'048'577};
constexpr std::size_t kDozen[] = {0, 1, 2, 5, 12, 13, 31, 64, 257, 1000, 1023, 4099};

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce ||
         kind == Kind::kReduceScatterV || kind == Kind::kGroup;
}
bool is_rooted(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather || kind == Kind::kScatter ||
         kind == Kind::kSendReceive || kind == Kind::kGroup;
}
bool has_in_place(Kind kind) {
  return kind != Kind::kAllToAll && kind != Kind::kAllToAllV && kind != Kind::kBarrier && kind != Kind::kSendReceive &&
         kind != Kind::kGroup;
}
bool is_uneven(Kind kind) {
  return kind == Kind::kAllGatherV || kind == Kind::kReduceScatterV || kind == Kind::kAllToAllV;
}
// Buffers of a part for each rank.
bool is_wide(Kind kind) {
  return kind != Kind::kAllReduce && kind != Kind::kBroadcast && kind != Kind::kReduce && kind != Kind::kSendReceive;
}

// How many elements rank `from` has for rank `to` in an uneven call or a group.
std::size_t pair_count(const Case& c, Rank from, Rank to) {
  const std::uint64_t hash = mixed(c.contents.seed * 31 + static_cast<std::uint64_t>(from * 64 + to));
  if (c.count == 0 || hash % 5 == 0) return 0;
  return static_cast<std::size_t>(hash >> 8) % (2 * c.count + 1);
}

std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& counts, bool gaps) {
  std::vector<std::size_t> offsets;
  std::size_t at = gaps ? 1 : 0;
  for (const std::size_t count : counts) {
    offsets.push_back(at);
    at += count + (gaps ? 3 : 0);
  }
  return offsets;
}
std::size_t end_of(const std::vector<std::size_t>& counts, const std::vector<std::size_t>& offsets) {
  return offsets.empty() ? 0 : offsets.back() + counts.back();
}

}  // namespace

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {
      "all_reduce", "all_gather",   "reduce_scatter",   "all_to_all",   "broadcast", "reduce",       "gather",
      "scatter",    "all_gather_v", "reduce_scatter_v", "all_to_all_v", "barrier",   "send_receive", "group"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Op op) {
  constexpr std::string_view kNames[] = {"none",    "sum",           "product",          "min", "max",
                                         "average", "premultiplied", "premultiplied_at", "xor", "first"};
  return kNames[static_cast<std::size_t>(op)];
}

std::string to_string(const Case& c) {
  return format("{} of {} {}{}{}, root {}, input at byte {}, output at byte {}{}{}", name_of(c.kind), c.count,
                to_string(c.contents.type), c.contents.op == Op::kNone ? "" : " by ",
                c.contents.op == Op::kNone ? "" : name_of(c.contents.op), c.root, c.input_offset, c.output_offset,
                c.in_place ? ", in place" : "", c.gaps ? ", with gaps" : "");
}

std::vector<Case> all_cases(int ranks, std::uint64_t seed) {
  std::vector<Case> cases;
  const auto add = [&](Case c) {
    c.contents.ranks = ranks;
    if (c.kind == Kind::kGroup && c.contents.op == Op::kNone) c.contents.op = Op::kSum;
    c.contents.seed = mixed(seed + cases.size()) >> 16;
    cases.push_back(c);
  };
  // Every root for few elements, then one after the other.
  const auto add_roots = [&](Case c) {
    if (is_rooted(c.kind) && c.count <= 4) {
      for (c.root = 0; c.root < ranks; ++c.root) add(c);
    } else {
      c.root = is_rooted(c.kind) ? static_cast<Rank>(c.count % static_cast<std::size_t>(ranks)) : 0;
      add(c);
    }
  };

  for (int k = 0; k < kKinds; ++k) {
    Case c;
    c.kind = static_cast<Kind>(k);
    if (c.kind == Kind::kBarrier) {
      for (int i = 0; i < 256; ++i) add(c);
      continue;
    }
    std::vector<std::size_t> counts(kMostSmallCount + 1);
    std::iota(counts.begin(), counts.end(), std::size_t{0});
    counts.insert(counts.end(), std::begin(kLargeCounts), std::end(kLargeCounts));
    c.contents.op = reduces(c.kind) ? Op::kSum : Op::kNone;
    for (const std::size_t count : counts) {
      c.count = count;
      // The largest of all would take the machine's memory with a part for each rank.
      c.contents.type = is_wide(c.kind) && count > 100'000 ? DataType::kInt8 : DataType::kInt32;
      for (const bool in_place : {false, true}) {
        if (in_place && !has_in_place(c.kind)) continue;
        c.in_place = in_place;
        // 256 counts have all pairs of offsets.
        c.input_offset = count % 16;
        c.output_offset = in_place ? count % 16 : count / 16 % 16;
        c.gaps = is_uneven(c.kind) && count % 2 == 1;
        add_roots(c);
      }
    }
  }

  for (int k = 0; k < kKinds; ++k) {
    Case c;
    c.kind = static_cast<Kind>(k);
    if (c.kind == Kind::kBarrier) continue;
    for (int t = 0; t < kDataTypeCount; ++t) {
      c.contents.type = static_cast<DataType>(t);
      for (const Op op : {Op::kNone, Op::kSum, Op::kProduct, Op::kMin, Op::kMax, Op::kAverage, Op::kPremultiplied,
                          Op::kPremultipliedAt, Op::kXor, Op::kFirst}) {
        if ((op == Op::kNone) == reduces(c.kind)) continue;
        c.contents.op = op;
        for (const std::size_t count : kDozen) {
          c.count = count;
          c.in_place = has_in_place(c.kind) && (count + static_cast<std::size_t>(t)) % 3 == 0;
          c.gaps = is_uneven(c.kind) && count % 2 == 0;
          c.input_offset = (count + static_cast<std::size_t>(t)) % 16;
          c.output_offset = c.in_place ? c.input_offset : (count * 3 + static_cast<std::size_t>(op)) % 16;
          c.root = is_rooted(c.kind)
                       ? static_cast<Rank>((count + static_cast<std::size_t>(op)) % static_cast<std::size_t>(ranks))
                       : 0;
          add(c);
        }
      }
    }
  }
  return cases;
}

void CaseRunner::Buffer::lay(std::size_t length, std::size_t offset) {
  const std::size_t all = length + 2 * kGuard + 64 + offset;
  bytes.resize(all);  // keeps its memory
  std::memset(bytes.data(), static_cast<int>(kUntouched), all);
  at = kGuard + (64 - reinterpret_cast<std::uintptr_t>(bytes.data()) % 64) % 64 + offset;
  data = bytes.data() + at;
}

void CaseRunner::Buffer::write(std::size_t at_byte, std::uint64_t bits, std::size_t size) {
  std::memcpy(data + at_byte, &bits, size);
}

void CaseRunner::fill(const Case& c, Buffer& buffer, std::size_t element_at, Rank rank, std::size_t index,
                      std::size_t count) {
  const std::size_t size = size_of(c.contents.type);
  for (std::size_t i = 0; i < count; ++i)
    buffer.write((element_at + i) * size, input_bits(c.contents, rank, index + i), size);
}

void CaseRunner::expect(const Case& c, Buffer& buffer, const std::vector<Part>& parts, std::size_t from_element) {
  const std::size_t size = size_of(c.contents.type);
  buffer.image = buffer.bytes;
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < part.count; ++i) {
      const std::uint64_t bits = part.from == kReduced ? reduced_bits(c.contents, part.input + i)
                                                       : input_bits(c.contents, part.from, part.input + i);
      std::memcpy(buffer.image.data() + buffer.at + (from_element + part.output + i) * size, &bits, size);
    }
  }
}

Status CaseRunner::check(const Case& c, const Buffer& buffer, std::string_view name) const {
  if (buffer.bytes.size() != buffer.image.size() ||
      std::memcmp(buffer.bytes.data(), buffer.image.data(), buffer.bytes.size()) == 0)
    return {};
  const auto differ = std::mismatch(buffer.bytes.begin(), buffer.bytes.end(), buffer.image.begin());
  const auto where = differ.first - buffer.bytes.begin() - static_cast<std::ptrdiff_t>(buffer.at);
  const auto size = static_cast<std::ptrdiff_t>(size_of(c.contents.type));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < buffer.bytes.size(); ++i) wrong += buffer.bytes[i] != buffer.image[i];
  return error(Code::kInternal, "rank {}: byte {} of the {} (in element {}) is {:#x}, not {:#x}; {} bytes are wrong",
               comm_.rank(), where, name, where / size, static_cast<int>(*differ.first),
               static_cast<int>(*differ.second), wrong);
}

Reduction CaseRunner::reduction_of(const Case& c) {
  const std::size_t size = size_of(c.contents.type);
  switch (c.contents.op) {
    case Op::kProduct: return ReduceOp::kProduct;
    case Op::kMin: return ReduceOp::kMin;
    case Op::kMax: return ReduceOp::kMax;
    case Op::kAverage: return ReduceOp::kAverage;
    case Op::kPremultiplied: return Reduction::premultiplied(static_cast<double>(scalar_of(comm_.rank())));
    case Op::kPremultipliedAt:
      scalar_ = encode(c.contents.type, scalar_of(comm_.rank()));
      return Reduction::premultiplied(static_cast<const void*>(&scalar_));
    case Op::kXor:
      return Reduction::user("xor", c.contents.type, [size](const void* in, void* in_out, std::size_t count) {
        const auto* from = static_cast<const std::byte*>(in);
        auto* to = static_cast<std::byte*>(in_out);
        for (std::size_t i = 0; i < count * size; ++i) to[i] ^= from[i];
      });
    case Op::kFirst:
      return Reduction::user(
          "first", c.contents.type, [](const void*, void*, std::size_t) {}, Commutative::kNo);
    default: return ReduceOp::kSum;
  }
}

Status CaseRunner::run(const Case& c) {
  if (c.kind == Kind::kBarrier) return run_barrier();
  if (c.kind == Kind::kSendReceive) return run_send_receive(c);
  if (c.kind == Kind::kGroup) return run_group(c);
  if (is_uneven(c.kind)) return run_uneven(c);
  return run_even(c);
}

Status CaseRunner::run_barrier() {
  arrivals_.total.fetch_add(1);
  HOCKET_TRY(comm_.barrier());
  const std::uint64_t least = ++barriers_ * static_cast<std::uint64_t>(comm_.size());
  if (const std::uint64_t come = arrivals_.total.load(); come < least)
    return error(Code::kInternal, "rank {}: barrier {} ended when only {} of {} had come", comm_.rank(), barriers_,
                 come, least);
  return {};
}

Status CaseRunner::run_even(const Case& c) {
  const auto n = static_cast<std::size_t>(comm_.size());
  const auto me = static_cast<std::size_t>(comm_.rank());
  const DataType type = c.contents.type;
  const std::size_t size = size_of(type), count = c.count;
  const bool root = comm_.rank() == c.root;

  // Lengths in elements, what is in the input, and what comes out.
  std::size_t in = count, out = count;
  std::size_t input_place = 0, output_place = 0;  // in place: of the one in the other
  std::vector<Part> parts;
  switch (c.kind) {
    case Kind::kAllReduce: parts = {{0, count, kReduced, 0}}; break;
    case Kind::kAllGather:
      out = n * count;
      input_place = me * count;
      for (std::size_t r = 0; r < n; ++r) parts.push_back({r * count, count, static_cast<Rank>(r), 0});
      break;
    case Kind::kReduceScatter:
      in = n * count;
      output_place = me * count;
      parts = {{0, count, kReduced, me * count}};
      break;
    case Kind::kAllToAll:
      in = out = n * count;
      for (std::size_t r = 0; r < n; ++r) parts.push_back({r * count, count, static_cast<Rank>(r), me * count});
      break;
    case Kind::kBroadcast: parts = {{0, count, c.root, 0}}; break;
    case Kind::kReduce:
      if (root) parts = {{0, count, kReduced, 0}};
      break;
    case Kind::kGather:
      if (root) {
        out = n * count;
        input_place = me * count;
        for (std::size_t r = 0; r < n; ++r) parts.push_back({r * count, count, static_cast<Rank>(r), 0});
      }
      break;
    case Kind::kScatter:
      if (root) in = n * count;
      if (root) output_place = me * count;
      parts = {{0, count, c.root, me * count}};
      break;
    default: break;
  }

  // In place is one buffer, which is the longer of the two; where only the root may, the others have two.
  const bool one_buffer =
      c.in_place && (root || (c.kind != Kind::kReduce && c.kind != Kind::kGather && c.kind != Kind::kScatter));
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  output_.lay((one_buffer ? std::max(in, out) : out) * size, c.output_offset);
  output = output_.data + (one_buffer ? output_place * size : 0);
  if (one_buffer) {
    fill(c, output_, input_place, comm_.rank(), 0, in);
    input = output_.data + input_place * size;
  } else {
    input_.lay(in * size, c.input_offset);
    fill(c, input_, 0, comm_.rank(), 0, in);
    input_.image = input_.bytes;
    input = input_.data;
  }
  expect(c, output_, parts, one_buffer ? output_place : 0);
  // What a rank has no use for may also be absent.
  if (!root && count % 2 == 1 && !one_buffer) {
    if (c.kind == Kind::kBroadcast || c.kind == Kind::kScatter) input = nullptr;
    if (c.kind == Kind::kReduce || c.kind == Kind::kGather) output = nullptr;
  }

  Status status;
  switch (c.kind) {
    case Kind::kAllReduce: status = comm_.all_reduce(input, output, count, type, reduction_of(c)); break;
    case Kind::kAllGather: status = comm_.all_gather(input, output, count, type); break;
    case Kind::kReduceScatter: status = comm_.reduce_scatter(input, output, count, type, reduction_of(c)); break;
    case Kind::kAllToAll: status = comm_.all_to_all(input, output, count, type); break;
    case Kind::kBroadcast: status = comm_.broadcast(input, output, count, type, c.root); break;
    case Kind::kReduce: status = comm_.reduce(input, output, count, type, reduction_of(c), c.root); break;
    case Kind::kGather: status = comm_.gather(input, output, count, type, c.root); break;
    case Kind::kScatter: status = comm_.scatter(input, output, count, type, c.root); break;
    default: break;
  }
  HOCKET_TRY(std::move(status));
  if (!one_buffer) HOCKET_TRY(check(c, input_, "input"));
  return check(c, output_, "output");
}

Status CaseRunner::run_uneven(const Case& c) {
  const auto n = static_cast<std::size_t>(comm_.size());
  const auto me = static_cast<std::size_t>(comm_.rank());
  const DataType type = c.contents.type;
  const std::size_t size = size_of(type);
  const bool to_all = c.kind == Kind::kAllToAllV;

  // send: what this rank gives to each (to_all) or the parts of its whole buffer; receive: what comes from each.
  std::vector<std::size_t> send, receive;
  for (std::size_t r = 0; r < n; ++r) {
    const auto other = static_cast<Rank>(r);
    send.push_back(to_all ? pair_count(c, comm_.rank(), other) : pair_count(c, other, 0));
    receive.push_back(to_all ? pair_count(c, other, comm_.rank()) : send.back());
  }
  const std::vector<std::size_t> send_offsets = offsets_of(send, c.gaps), offsets = offsets_of(receive, c.gaps);
  const std::size_t whole = end_of(receive, offsets);
  std::size_t in = 0, out = 0, input_place = 0, output_place = 0;
  std::vector<Part> parts;
  if (c.kind == Kind::kAllGatherV) {
    in = send[me];
    out = whole;
    input_place = offsets[me];
    for (std::size_t r = 0; r < n; ++r) parts.push_back({offsets[r], receive[r], static_cast<Rank>(r), 0});
  } else if (c.kind == Kind::kReduceScatterV) {
    in = whole;
    out = receive[me];
    output_place = offsets[me];
    parts = {{0, out, kReduced, offsets[me]}};
  } else {
    in = end_of(send, send_offsets);
    out = whole;
    for (std::size_t r = 0; r < n; ++r) {
      // Where my part lies in the input of rank r.
      std::vector<std::size_t> row;
      for (std::size_t p = 0; p < n; ++p) row.push_back(pair_count(c, static_cast<Rank>(r), static_cast<Rank>(p)));
      parts.push_back({offsets[r], receive[r], static_cast<Rank>(r), offsets_of(row, c.gaps)[me]});
    }
  }

  output_.lay((c.in_place ? std::max(in, out) : out) * size, c.output_offset);
  std::byte* const output = output_.data + (c.in_place ? output_place * size : 0);
  const std::byte* input = output_.data + input_place * size;
  if (c.in_place) {
    fill(c, output_, input_place, comm_.rank(), 0, in);
  } else {
    input_.lay(in * size, c.input_offset);
    fill(c, input_, 0, comm_.rank(), 0, in);
    input_.image = input_.bytes;
    input = input_.data;
  }
  expect(c, output_, parts, c.in_place ? output_place : 0);

  const std::span<const std::size_t> given = c.gaps ? std::span(offsets) : std::span<const std::size_t>();
  Status status;
  if (c.kind == Kind::kAllGatherV) {
    status = comm_.all_gather_v(input, output, receive, type, given);
  } else if (c.kind == Kind::kReduceScatterV) {
    status = comm_.reduce_scatter_v(input, output, receive, type, reduction_of(c), given);
  } else {
    status = comm_.all_to_all_v(input, send, output, receive, type,
                                c.gaps ? std::span(send_offsets) : std::span<const std::size_t>(), given);
  }
  HOCKET_TRY(std::move(status));
  if (!c.in_place) HOCKET_TRY(check(c, input_, "input"));
  return check(c, output_, "output");
}

// Around a circle from the root on, each to its next: the root sends first, the others receive first.
Status CaseRunner::run_send_receive(const Case& c) {
  const int n = comm_.size();
  const std::size_t bytes = c.count * size_of(c.contents.type);
  const Rank next = (comm_.rank() + 1) % n, previous = (comm_.rank() + n - 1) % n;
  input_.lay(bytes, c.input_offset);
  fill(c, input_, 0, comm_.rank(), 0, c.count);
  input_.image = input_.bytes;
  output_.lay(bytes, c.output_offset);
  expect(c, output_, {{0, c.count, previous, 0}});
  if (n == 1) {
    Group group;  // only there may a rank send to itself
    HOCKET_TRY(comm_.send(input_.data, c.count, c.contents.type, 0));
    HOCKET_TRY(comm_.receive(output_.data, c.count, c.contents.type, 0));
    HOCKET_TRY(group.end());
  } else if (comm_.rank() == c.root) {
    HOCKET_TRY(comm_.send(input_.data, c.count, c.contents.type, next));
    HOCKET_TRY(comm_.receive(output_.data, c.count, c.contents.type, previous));
  } else {
    HOCKET_TRY(comm_.receive(output_.data, c.count, c.contents.type, previous));
    HOCKET_TRY(comm_.send(input_.data, c.count, c.contents.type, next));
  }
  HOCKET_TRY(check(c, input_, "input"));
  return check(c, output_, "output");
}

// One buffer each for all: first the all_reduce's, then the broadcast's, then messages to and from each rank.
Status CaseRunner::run_group(const Case& c) {
  const auto n = static_cast<std::size_t>(comm_.size());
  const auto me = static_cast<std::size_t>(comm_.rank());
  const DataType type = c.contents.type;
  const std::size_t size = size_of(type), reduced = std::min<std::size_t>(c.count, 5000);
  std::vector<std::size_t> send = {reduced, reduced}, receive = send;
  for (std::size_t r = 0; r < n; ++r) {
    send.push_back(pair_count(c, comm_.rank(), static_cast<Rank>(r)));
    receive.push_back(pair_count(c, static_cast<Rank>(r), comm_.rank()));
  }
  const std::vector<std::size_t> from = offsets_of(send, false), to = offsets_of(receive, true);
  input_.lay(end_of(send, from) * size, c.input_offset);
  fill(c, input_, 0, comm_.rank(), 0, end_of(send, from));
  input_.image = input_.bytes;
  output_.lay(end_of(receive, to) * size, c.output_offset);
  std::vector<Part> parts = {{to[0], reduced, kReduced, 0}, {to[1], reduced, c.root, reduced}};
  for (std::size_t r = 0; r < n; ++r) {
    std::size_t at = 2 * reduced;  // of my message in the input of rank r
    for (std::size_t p = 0; p < me; ++p) at += pair_count(c, static_cast<Rank>(r), static_cast<Rank>(p));
    parts.push_back({to[r + 2], receive[r + 2], static_cast<Rank>(r), at});
  }
  expect(c, output_, parts);

  const auto in = [&](std::size_t i) { return input_.data + from[i] * size; };
  const auto out = [&](std::size_t i) { return output_.data + to[i] * size; };
  const auto other = [&](std::size_t i) { return (me + i) % n; };  // each begins with another
  Group group;
  for (std::size_t i = 0; i < n; ++i)
    HOCKET_TRY(comm_.send(in(2 + other(i)), send[2 + other(i)], type, static_cast<Rank>(other(i))));
  HOCKET_TRY(comm_.all_reduce(in(0), out(0), reduced, type, reduction_of(c)));
  HOCKET_TRY(comm_.broadcast(in(1), out(1), reduced, type, c.root));
  for (std::size_t i = n; i-- > 0;)
    HOCKET_TRY(comm_.receive(out(2 + other(i)), receive[2 + other(i)], type, static_cast<Rank>(other(i))));
  HOCKET_TRY(group.end());
  HOCKET_TRY(check(c, input_, "input"));
  return check(c, output_, "output");
}

}  // namespace hocket::matrix
