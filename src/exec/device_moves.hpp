// SPDX-License-Identifier: Apache-2.0
// exec/device_moves.hpp: what the threads of a block do in one Move, for device and host: copies and reductions of
// plain memory and of packets. Which element a thread takes depends on nothing but its index.
//
// Reductions are compiled per (type, operation), each out of line: the choice is one switch a Move, the inner loops
// have none. Copies know no type. Next stop: exec/reduce_scalar.hpp, what one element of a reduction is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "exec/device_channels.hpp"
#include "exec/memory_order.hpp"
#include "exec/reduce_scalar.hpp"

#ifdef __CUDACC__
#define HOCKET_NOINLINE __noinline__
#else
#define HOCKET_NOINLINE [[gnu::noinline]]
#endif

namespace hocket {

/// A span of the current Move as addresses.
struct LanePlace {
  std::byte* body = nullptr;         ///< bytes from 0 on
  std::byte* line = nullptr;         ///< first line: where bytes below kInlineBytes are instead
  std::uint64_t* packets = nullptr;  ///< packet: where all bytes are instead
  std::uint32_t flag = 0;            ///< of this transfer's packets

  /// Where byte `begin` is; the segment that starts there lies on one side of kInlineBytes.
  HOCKET_HD std::byte* at(std::uint64_t begin) const {
    return (line != nullptr && begin < kInlineBytes ? line : body) + begin;
  }
};

/// Shared by the threads of a block.
struct LaneShared {
  static constexpr int kMaxSpans = 130;  ///< sources; and as many destinations
  LanePlace sources[kMaxSpans];
  LanePlace destinations[kMaxSpans];
};

/// One thread's part in a segment [begin, begin + bytes) of a Move.
struct LaneMove {
  const LanePlace* sources;
  const LanePlace* destinations;
  int source_count;
  int destination_count;
  std::uint64_t begin;
  std::uint64_t bytes;
  std::uint64_t index;          ///< of this thread
  std::uint64_t stride;         ///< threads
  const std::uint64_t* errors;  ///< not 0: stop waiting for packets
  int world;
  bool finish;
};

namespace device_detail {

struct alignas(16) Vector16 {
  std::uint32_t word[4];
};

/// One access on a device; `from` is aligned for T.
template <class T>
HOCKET_HD inline T load(const std::byte* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const T*>(from);
#else
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
#endif
}
template <class T>
HOCKET_HD inline void store(std::byte* to, const T& value) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<T*>(to) = value;
#else
  std::memcpy(to, &value, sizeof value);
#endif
}

/// Vectors of 16 bytes that the segment has; none unless all its addresses are aligned.
HOCKET_HD inline std::uint64_t vectors_of(const LaneMove& m) {
  std::uint64_t bits = 0;
  for (int s = 0; s < m.source_count; ++s) bits |= reinterpret_cast<std::uintptr_t>(m.sources[s].at(m.begin));
  for (int d = 0; d < m.destination_count; ++d) bits |= reinterpret_cast<std::uintptr_t>(m.destinations[d].at(m.begin));
  return bits % 16 == 0 ? m.bytes / 16 : 0;
}

inline constexpr int kPollsBeforeAbortCheck = 4096;

/// Word w of a packet span, once it is there. False: the communicator ended while waiting.
HOCKET_HD inline bool read_packet(const LaneMove& m, const LanePlace& p, std::uint64_t w, std::uint32_t& data) {
  std::uint64_t packet = load_flagged(p.packets + w);  // pairs with write_packet
  for (int polls = 0; static_cast<std::uint32_t>(packet >> 32) != p.flag; packet = load_flagged(p.packets + w)) {
    if (++polls < kPollsBeforeAbortCheck) continue;
    polls = 0;
    if (m.errors != nullptr && load_acquire(m.errors) != 0) return false;
  }
  data = static_cast<std::uint32_t>(packet);
  return true;
}
HOCKET_HD inline void write_packet(const LanePlace& p, std::uint64_t w, std::uint32_t data) {
  store_flagged(p.packets + w, static_cast<std::uint64_t>(p.flag) << 32 | data);
}

/// `Unit` by `Unit`.
template <class Unit>
HOCKET_HD inline void copy_units(const LaneMove& m, std::uint64_t first, std::uint64_t units) {
  const std::byte* from = m.sources[0].at(m.begin);
  for (std::uint64_t u = first + m.index; u < units; u += m.stride) {
    const Unit unit = load<Unit>(from + u * sizeof(Unit));
    for (int d = 0; d < m.destination_count; ++d) store(m.destinations[d].at(m.begin) + u * sizeof(Unit), unit);
  }
}

template <DataType type, ReduceOp op, std::uint64_t at_once>
HOCKET_HD inline void reduce_vectors(const LaneMove& m, std::uint64_t v) {
  using Accumulator = typename Element<type>::Accumulator;
  constexpr std::uint32_t kElements = 16 / sizeof(typename Element<type>::Stored);
  struct Vector {
    typename Element<type>::Stored element[kElements];
  };
  Accumulator sum[at_once][kElements] = {};
  for (int s = 0; s < m.source_count; ++s) {
    const std::byte* from = m.sources[s].at(m.begin);
    Vector part[at_once];
    for (std::uint64_t u = 0; u < at_once; ++u)
      part[u] = __builtin_bit_cast(Vector, load<Vector16>(from + (v + u * m.stride) * 16));
    for (std::uint64_t u = 0; u < at_once; ++u)
      for (std::uint32_t e = 0; e < kElements; ++e) {
        const Accumulator value = Element<type>::load(part[u].element[e]);
        sum[u][e] = s == 0 ? value : combine<op>(sum[u][e], value);
      }
  }
  for (std::uint64_t u = 0; u < at_once; ++u) {
    Vector result;
    for (std::uint32_t e = 0; e < kElements; ++e)
      result.element[e] = Element<type>::store(m.finish ? finish<op>(sum[u][e], m.world) : sum[u][e]);
    const Vector16 out = __builtin_bit_cast(Vector16, result);
    for (int d = 0; d < m.destination_count; ++d) store(m.destinations[d].at(m.begin) + (v + u * m.stride) * 16, out);
  }
}

/// A segment of plain memory.
template <DataType type, ReduceOp op>
HOCKET_HD HOCKET_NOINLINE void reduce_memory(const LaneMove& m) {
  using Stored = typename Element<type>::Stored;
  using Accumulator = typename Element<type>::Accumulator;
  constexpr std::uint64_t kAtOnce = 2;  // vectors of every source in flight a thread
  const std::uint64_t vectors = vectors_of(m);
  std::uint64_t v = m.index;
  for (; v + (kAtOnce - 1) * m.stride < vectors; v += kAtOnce * m.stride) reduce_vectors<type, op, kAtOnce>(m, v);
  for (; v < vectors; v += m.stride) reduce_vectors<type, op, 1>(m, v);
  const std::uint64_t elements = m.bytes / sizeof(Stored);
  for (std::uint64_t e = vectors * (16 / sizeof(Stored)) + m.index; e < elements; e += m.stride) {
    const std::uint64_t offset = e * sizeof(Stored);
    Accumulator sum = Element<type>::load(load<Stored>(m.sources[0].at(m.begin) + offset));
    for (int s = 1; s < m.source_count; ++s)
      sum = combine<op>(sum, Element<type>::load(load<Stored>(m.sources[s].at(m.begin) + offset)));
    const Stored value = Element<type>::store(m.finish ? finish<op>(sum, m.world) : sum);
    for (int d = 0; d < m.destination_count; ++d) store(m.destinations[d].at(m.begin) + offset, value);
  }
}

/// A whole Move of the packet protocol, some of whose spans are packets. In granules: one element or more, one word or
/// more.
template <DataType type, ReduceOp op>
HOCKET_HD HOCKET_NOINLINE bool reduce_packets(const LaneMove& m) {
  using Stored = typename Element<type>::Stored;
  using Accumulator = typename Element<type>::Accumulator;
  constexpr std::uint32_t kBytes = sizeof(Stored) < kPacketDataBytes ? kPacketDataBytes : sizeof(Stored);
  constexpr std::uint32_t kElements = kBytes / sizeof(Stored);
  constexpr std::uint32_t kWords = kBytes / kPacketDataBytes;
  struct Granule {
    Stored element[kElements];
  };
  struct Words {
    std::uint32_t word[kWords];
  };
  const std::uint64_t length = m.bytes / sizeof(Stored);
  const std::uint64_t granules = (length + kElements - 1) / kElements;
  for (std::uint64_t g = m.index; g < granules; g += m.stride) {
    const std::uint64_t left = length - g * kElements;
    const std::uint32_t elements = left < kElements ? static_cast<std::uint32_t>(left) : kElements;
    Accumulator sum[kElements] = {};
    for (int s = 0; s < m.source_count; ++s) {
      const LanePlace& p = m.sources[s];
      Granule value{};
      if (p.packets != nullptr) {
        Words words{};
        for (std::uint32_t w = 0; w < kWords; ++w)
          if (!read_packet(m, p, g * kWords + w, words.word[w])) return false;
        value = __builtin_bit_cast(Granule, words);
      } else {
        for (std::uint32_t e = 0; e < elements; ++e)
          value.element[e] = load<Stored>(p.body + g * kBytes + e * sizeof(Stored));
      }
      for (std::uint32_t e = 0; e < kElements; ++e) {
        const Accumulator next = Element<type>::load(value.element[e]);
        sum[e] = s == 0 ? next : combine<op>(sum[e], next);
      }
    }
    Granule result;
    for (std::uint32_t e = 0; e < kElements; ++e)
      result.element[e] = Element<type>::store(m.finish ? finish<op>(sum[e], m.world) : sum[e]);
    const Words words = __builtin_bit_cast(Words, result);
    for (int d = 0; d < m.destination_count; ++d) {
      const LanePlace& p = m.destinations[d];
      if (p.packets != nullptr) {
        for (std::uint32_t w = 0; w < kWords; ++w) write_packet(p, g * kWords + w, words.word[w]);
      } else {
        for (std::uint32_t e = 0; e < elements; ++e) store(p.body + g * kBytes + e * sizeof(Stored), result.element[e]);
      }
    }
  }
  return true;
}

template <DataType type, ReduceOp op>
HOCKET_HD inline bool reduce_with(const LaneMove& m, bool packets) {
  if (packets) return reduce_packets<type, op>(m);
  reduce_memory<type, op>(m);
  return true;
}

template <DataType type>
HOCKET_HD inline bool reduce_of(const LaneMove& m, bool packets, ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage: return reduce_with<type, ReduceOp::kAverage>(m, packets);
    case ReduceOp::kSum: return reduce_with<type, ReduceOp::kSum>(m, packets);
    case ReduceOp::kProduct: return reduce_with<type, ReduceOp::kProduct>(m, packets);
    case ReduceOp::kMin: return reduce_with<type, ReduceOp::kMin>(m, packets);
    case ReduceOp::kMax: return reduce_with<type, ReduceOp::kMax>(m, packets);
    case ReduceOp::kPremultipliedSum:
    case ReduceOp::kUser: break;  // refused before a lane begins: run_lane()
  }
  return false;
}

}  // namespace device_detail

/// A segment of plain memory with one source. Elements have `element_bytes` and their alignment.
HOCKET_HD HOCKET_NOINLINE inline void copy_memory(const LaneMove& m, std::uint32_t element_bytes) {
  using namespace device_detail;
  constexpr std::uint64_t kAtOnce = 4;  // vectors in flight a thread
  const std::uint64_t vectors = vectors_of(m);
  const std::byte* from = m.sources[0].at(m.begin);
  // Whole strides of four first, then vector by vector, then what is left.
  const std::uint64_t unrolled = vectors / (kAtOnce * m.stride) * (kAtOnce * m.stride);
  for (std::uint64_t v = m.index; v < unrolled; v += kAtOnce * m.stride) {
    Vector16 part[kAtOnce];
    for (std::uint64_t u = 0; u < kAtOnce; ++u) part[u] = load<Vector16>(from + (v + u * m.stride) * 16);
    for (int d = 0; d < m.destination_count; ++d) {
      std::byte* to = m.destinations[d].at(m.begin);
      for (std::uint64_t u = 0; u < kAtOnce; ++u) store(to + (v + u * m.stride) * 16, part[u]);
    }
  }
  copy_units<Vector16>(m, unrolled, vectors);
  if (element_bytes == 8) {
    copy_units<std::uint64_t>(m, vectors * 2, m.bytes / 8);
  } else if (element_bytes == 4) {
    copy_units<std::uint32_t>(m, vectors * 4, m.bytes / 4);
  } else if (element_bytes == 2) {
    copy_units<std::uint16_t>(m, vectors * 8, m.bytes / 2);
  } else {
    copy_units<std::uint8_t>(m, vectors * 16, m.bytes);
  }
}

/// A whole Move of the packet protocol with one source, word by word. False: the communicator ended while waiting.
HOCKET_HD HOCKET_NOINLINE inline bool copy_packets(const LaneMove& m, std::uint32_t element_bytes) {
  using namespace device_detail;
  const std::uint64_t words = (m.bytes + kPacketDataBytes - 1) / kPacketDataBytes;
  const LanePlace& from = m.sources[0];
  for (std::uint64_t w = m.index; w < words; w += m.stride) {
    const std::uint64_t at = w * kPacketDataBytes;
    const bool parts = element_bytes < kPacketDataBytes;  // the last word may hold less, and addresses are odd
    const std::uint64_t bytes = m.bytes - at < kPacketDataBytes ? m.bytes - at : kPacketDataBytes;
    std::uint32_t word = 0;
    if (from.packets != nullptr) {
      if (!read_packet(m, from, w, word)) return false;
    } else if (!parts) {
      word = load<std::uint32_t>(from.body + at);
    } else if (element_bytes == 2) {
      for (std::uint64_t b = 0; b < bytes; b += 2)
        word |= static_cast<std::uint32_t>(load<std::uint16_t>(from.body + at + b)) << (8 * b);
    } else {
      for (std::uint64_t b = 0; b < bytes; ++b)
        word |= static_cast<std::uint32_t>(load<std::uint8_t>(from.body + at + b)) << (8 * b);
    }
    for (int d = 0; d < m.destination_count; ++d) {
      const LanePlace& to = m.destinations[d];
      if (to.packets != nullptr) {
        write_packet(to, w, word);
      } else if (!parts) {
        store(to.body + at, word);
      } else if (element_bytes == 2) {
        for (std::uint64_t b = 0; b < bytes; b += 2)
          store(to.body + at + b, static_cast<std::uint16_t>(word >> (8 * b)));
      } else {
        for (std::uint64_t b = 0; b < bytes; ++b) store(to.body + at + b, static_cast<std::uint8_t>(word >> (8 * b)));
      }
    }
  }
  return true;
}

/// This thread's part of a segment with several sources. False: the communicator ended while waiting for packets.
HOCKET_HD inline bool reduce_move(const LaneMove& m, bool packets, DataType type, ReduceOp op) {
  using namespace device_detail;
  switch (type) {
    case DataType::kFloat32: return reduce_of<DataType::kFloat32>(m, packets, op);
    case DataType::kFloat64: return reduce_of<DataType::kFloat64>(m, packets, op);
    case DataType::kBfloat16: return reduce_of<DataType::kBfloat16>(m, packets, op);
    case DataType::kFloat16: return reduce_of<DataType::kFloat16>(m, packets, op);
    case DataType::kInt32: return reduce_of<DataType::kInt32>(m, packets, op);
    case DataType::kInt64: return reduce_of<DataType::kInt64>(m, packets, op);
    case DataType::kInt8: return reduce_of<DataType::kInt8>(m, packets, op);
    case DataType::kUint8: return reduce_of<DataType::kUint8>(m, packets, op);
    case DataType::kUint32: return reduce_of<DataType::kUint32>(m, packets, op);
    case DataType::kUint64: return reduce_of<DataType::kUint64>(m, packets, op);
    case DataType::kFloat8E4M3: return reduce_of<DataType::kFloat8E4M3>(m, packets, op);
    case DataType::kFloat8E5M2: return reduce_of<DataType::kFloat8E5M2>(m, packets, op);
  }
  return false;
}

}  // namespace hocket
