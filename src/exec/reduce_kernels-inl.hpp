// SPDX-License-Identifier: Apache-2.0
// exec/reduce_kernels-inl.hpp: the reduction kernels, compiled once per target (reduce_<target>.cpp).
//
// All code is in an unnamed namespace of the target and uses nothing of std: an inline function that this unit emitted
// could be the copy that the linker keeps for the whole library, and would end on an older CPU as an illegal
// instruction. reduce_scalar.hpp defines the results; what is done differently here for speed is proven equal by
// reduce_test.cpp:
//  - max is -min(-x), and min(a, b) is Min(a, b) | Min(b, a): the OR takes -0 of two zeros and keeps a NaN.
//  - a division by a power of two is a product or a shift.
//  - bfloat16 is taken in pairs: a 32-bit lane holds two, one is shifted up, the other masked; no shuffle.
// How a span is cut: a head up to the alignment of stores (streamed, or many), strips of four vectors, single vectors,
// and a last vector that overlaps the one before. Head and last vector are computed before anything is stored, so that
// a destination may be a source. Accumulators live in registers for up to kGroup sources; more are read group by group
// over a block whose accumulators stay in L1, since the hardware follows no more streams than that. Nothing is rounded
// in between.

#include <hwy/base.h>

#define HWY_COMPILE_ONLY_STATIC
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "exec/reduce_targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace hocket::HOCKET_REDUCE_TARGET {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Byte = unsigned char;
template <class D>
using Vector = hn::Vec<D>;

// Blocks that several destinations or a slot are written from: in L1 beside the sources, and long enough for `rep
// movsb`.
constexpr std::size_t kBlockBytes = 16 * 1024;
constexpr std::size_t kSlotBytes = 4096;
constexpr int kGroup = 8;                        // sources read at once
constexpr std::size_t kPartialBytes = 4 * 1024;  // accumulators of a block when there are more

template <class D>
constexpr bool is_one_lane() {
  return hn::MaxLanes(D()) == 1;
}

// ---- Element types: memory to accumulator and back. Single lanes go through memcpy, as the pointer may be unaligned.

template <class T>
HWY_INLINE T load_one(const Byte* from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}

// Where a result goes: to both at once, so that it is rounded to its type once.
struct To {
  Byte* first;
  Byte* second;  // or null
  bool stream;
  bool stream_second;
};

template <class T>
HWY_INLINE void store_one(T value, const To& to) {
  __builtin_memcpy(to.first, &value, sizeof value);
  if (to.second) __builtin_memcpy(to.second, &value, sizeof value);
}

template <class D>
HWY_INLINE Vector<D> load_vector(D d, const Byte* from) {
  using T = hn::TFromD<D>;
  if constexpr (is_one_lane<D>()) {
    return hn::Set(d, load_one<T>(from));
  } else {
    return hn::LoadU(d, reinterpret_cast<const T*>(from));
  }
}

template <class D>
HWY_INLINE void store_vector_at(D d, Vector<D> v, Byte* to, bool stream) {
  using T = hn::TFromD<D>;
  if constexpr (hn::MaxLanes(D()) * sizeof(T) >= 16) {
    if (stream) return hn::Stream(v, d, reinterpret_cast<T*>(to));
  }
  hn::StoreU(v, d, reinterpret_cast<T*>(to));
}

template <class D>
HWY_INLINE void store_vector(D d, Vector<D> v, const To& to) {
  using T = hn::TFromD<D>;
  if constexpr (is_one_lane<D>()) {
    store_one<T>(hn::GetLane(v), to);
  } else {
    store_vector_at(d, v, to.first, to.stream);
    if (to.second) store_vector_at(d, v, to.second, to.stream_second);
  }
}

template <class T>
struct Plain {
  using Stored = T;
  using Lane = T;
  using Wide = Plain;
  template <class D>
  static constexpr std::size_t kElements = hn::MaxLanes(D());
  template <class D>
  static HWY_INLINE Vector<D> load(D d, const Byte* from) {
    return load_vector(d, from);
  }
  template <class D>
  static HWY_INLINE void store(D d, Vector<D> v, const To& to) {
    store_vector(d, v, to);
  }
};

// Values <= 0xffff in 32-bit lanes.
template <class D>
HWY_INLINE void store_low_halves(D, Vector<hn::RebindToUnsigned<D>> bits, const To& to) {
  const hn::RebindToSigned<D> d_int;
  const hn::Rebind<std::uint16_t, D> d16;
  if constexpr (is_one_lane<D>()) {
    store_one<std::uint16_t>(static_cast<std::uint16_t>(hn::GetLane(bits)), to);
  } else {
    store_vector(d16, hn::DemoteTo(d16, hn::BitCast(d_int, bits)), to);
  }
}

template <class D>
HWY_INLINE Vector<hn::RebindToUnsigned<D>> load_low_halves(D, const Byte* from) {
  const hn::RebindToUnsigned<D> du;
  if constexpr (is_one_lane<D>()) {
    return hn::Set(du, load_one<std::uint16_t>(from));
  } else {
    const hn::Rebind<std::uint16_t, D> d16;
    return hn::PromoteTo(du, load_vector(d16, from));
  }
}

// Rounded to the upper half; the lower half is rubbish. A NaN is canonical by now and its low half is zero, so that
// rounding can't carry into its exponent.
template <class D>
HWY_INLINE Vector<hn::RebindToUnsigned<D>> round_to_bfloat16(D, Vector<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fffu)), odd);
}

// Two vectors of accumulators for one of memory.
template <class D>
struct Pair {
  Vector<D> even;
  Vector<D> odd;
};

struct Bfloat16Pairs {
  using Stored = std::uint16_t;
  using Lane = float;
  template <class D>
  static constexpr std::size_t kElements = 2 * hn::MaxLanes(D());
  template <class D>
  static HWY_INLINE Pair<D> load(D d, const Byte* from) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = load_vector(du, from);
    return {hn::BitCast(d, hn::ShiftLeft<16>(bits)), hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff0000u)))};
  }
  template <class D>
  static HWY_INLINE void store(D d, Pair<D> v, const To& to) {
    const hn::RebindToUnsigned<D> du;
    const auto even = hn::ShiftRight<16>(round_to_bfloat16(d, v.even));
    const auto odd = hn::And(round_to_bfloat16(d, v.odd), hn::Set(du, 0xffff0000u));
    store_vector(du, hn::Or(even, odd), to);
  }
};
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Bfloat16Pairs: the even element is the low half");

struct Bfloat16Bits {
  using Stored = std::uint16_t;
  using Lane = float;
  using Wide = Bfloat16Pairs;
  template <class D>
  static constexpr std::size_t kElements = hn::MaxLanes(D());
  template <class D>
  static HWY_INLINE Vector<D> load(D d, const Byte* from) {
    return hn::BitCast(d, hn::ShiftLeft<16>(load_low_halves(d, from)));
  }
  template <class D>
  static HWY_INLINE void store(D d, Vector<D> v, const To& to) {
    store_low_halves(d, hn::ShiftRight<16>(round_to_bfloat16(d, v)), to);
  }
};

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define HOCKET_HALF_IN_HARDWARE 1
#else
#define HOCKET_HALF_IN_HARDWARE 0
#endif

struct HalfBits {
  using Stored = std::uint16_t;
  using Lane = float;
  using Wide = HalfBits;
  template <class D>
  static constexpr std::size_t kElements = hn::MaxLanes(D());

  template <class D>
  static HWY_INLINE Vector<D> load(D d, const Byte* from) {
#if HOCKET_HALF_IN_HARDWARE
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<hwy::float16_t, D> d_half;
    return hn::PromoteTo(d, hn::BitCast(d_half, load_vector(d16, from)));
#else
    // base/float16.hpp, half_to_float.
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = load_low_halves(d, from);
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffu));
    const auto shifted = hn::ShiftLeft<13>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(du, 112u << 23));
    const auto special = hn::Or(shifted, hn::Set(du, 0x7f800000u));
    const auto denormal = hn::BitCast(du, hn::Mul(hn::ConvertTo(d, hn::BitCast(di, magnitude)), hn::Set(d, 0x1p-24f)));
    const auto signed_magnitude = hn::BitCast(di, magnitude);  // compared as signed: cheaper, and positive
    const auto is_special = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x7bff)));
    const auto is_denormal = hn::RebindMask(du, hn::Lt(signed_magnitude, hn::Set(di, 0x0400)));
    const auto value = hn::IfThenElse(is_denormal, denormal, hn::IfThenElse(is_special, special, normal));
    return hn::BitCast(d, hn::Or(sign, value));
#endif
  }

  template <class D>
  static HWY_INLINE void store([[maybe_unused]] D d, Vector<D> v, const To& to) {
#if HOCKET_HALF_IN_HARDWARE
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<hwy::float16_t, D> d_half;
    store_vector(d16, hn::BitCast(d16, hn::DemoteTo(d_half, v)), to);
#else
    // base/float16.hpp, float_to_half.
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000u));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto signed_magnitude = hn::BitCast(di, magnitude);
    const auto half = hn::Set(d, 0.5f);
    const auto denormal = hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du, half));
    const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1u));
    const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(du, 0xfffu)), odd);
    const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(du, 112u << 23)));
    const auto is_denormal = hn::RebindMask(du, hn::Lt(signed_magnitude, hn::Set(di, 0x38800000)));
    const auto is_huge = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x477fffff)));
    const auto is_nan = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x7f800000)));
    auto value = hn::IfThenElse(is_denormal, denormal, normal);
    value = hn::IfThenElse(is_huge, hn::Set(du, 0x7c00u), value);
    value = hn::IfThenElse(is_nan, hn::Set(du, 0x7e00u), value);
    store_low_halves(d, hn::Or(sign, value), to);
#endif
  }
};

// Values <= 0xff in 32-bit lanes.
template <class D>
HWY_INLINE void store_low_bytes(D, Vector<hn::RebindToUnsigned<D>> bits, const To& to) {
  const hn::RebindToSigned<D> d_int;
  const hn::Rebind<std::uint8_t, D> d8;
  if constexpr (is_one_lane<D>()) {
    store_one<std::uint8_t>(static_cast<std::uint8_t>(hn::GetLane(bits)), to);
  } else {
    store_vector(d8, hn::DemoteTo(d8, hn::BitCast(d_int, bits)), to);
  }
}

template <class D>
HWY_INLINE Vector<hn::RebindToUnsigned<D>> load_low_bytes(D, const Byte* from) {
  const hn::RebindToUnsigned<D> du;
  if constexpr (is_one_lane<D>()) {
    return hn::Set(du, load_one<std::uint8_t>(from));
  } else {
    const hn::Rebind<std::uint8_t, D> d8;
    return hn::PromoteTo(du, load_vector(d8, from));
  }
}

// 8-bit integers in 32-bit lanes, for what has no 8-bit instruction. Only the low byte of a lane counts.
template <class T>
struct NarrowInteger {
  using Stored = T;
  using Lane = std::int32_t;
  using Wide = NarrowInteger;
  template <class D>
  static constexpr std::size_t kElements = hn::MaxLanes(D());
  template <class D>
  static HWY_INLINE Vector<D> load(D d, const Byte* from) {
    return hn::BitCast(d, load_low_bytes(d, from));
  }
  template <class D>
  static HWY_INLINE void store(D d, Vector<D> v, const To& to) {
    const hn::RebindToUnsigned<D> du;
    store_low_bytes(d, hn::And(hn::BitCast(du, v), hn::Set(du, 0xffu)), to);
  }
};

// base/float8.hpp. kMantissa bits; kBias is 127 less the format's; the float whose ulp is the unit of the denormals.
struct E4M3Format {
  static constexpr int kMantissa = 3;
  static constexpr std::uint32_t kBias = 120;
  static constexpr std::int32_t kLargest = 0x43e00000, kSmallestNormal = 0x3c800000;
  static constexpr float kDenormalUnit = 0x1p-9f, kDenormalRounder = 0x1p14f;
  static constexpr std::uint32_t kNan = 0x7f, kInfinity = 0x7e;
  static constexpr std::int32_t kLargestCode = 0x7e;
};
struct E5M2Format {
  static constexpr int kMantissa = 2;
  static constexpr std::uint32_t kBias = 112;
  static constexpr std::int32_t kLargest = 0x47600000, kSmallestNormal = 0x38800000;
  static constexpr float kDenormalUnit = 0x1p-16f, kDenormalRounder = 0x1p7f;
  static constexpr std::uint32_t kNan = 0x7e, kInfinity = 0x7c;
  static constexpr std::int32_t kLargestCode = 0x7b;
};

template <class Format>
struct Float8Bits {
  using Stored = std::uint8_t;
  using Lane = float;
  using Wide = Float8Bits;
  template <class D>
  static constexpr std::size_t kElements = hn::MaxLanes(D());
  static constexpr bool kIsE5M2 = Format::kMantissa == 2;

  template <class D>
  static HWY_INLINE Vector<D> load(D d, const Byte* from) {
#if HOCKET_HALF_IN_HARDWARE
    // E5M2 is the upper byte of a half. E4M3 at the place of a half's lower exponent bits is the number / 256, its
    // denormals too; only its NaN must be told from the number that it would be.
    const hn::Rebind<hwy::float16_t, D> d_half;
    const auto half = hn::BitCast(d_half, load_as_halves(d, from));
    const auto value = hn::PromoteTo(d, half);
    if constexpr (kIsE5M2) {
      return value;
    } else {
      const auto scaled = hn::Mul(value, hn::Set(d, 256.0f));
      return hn::IfThenElse(hn::Eq(hn::Abs(scaled), hn::Set(d, 480.0f)), nan(d), scaled);
    }
#else
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = load_low_bytes(d, from);
    const auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(du, 0x80u)));
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fu));
    const auto signed_magnitude = hn::BitCast(di, magnitude);
    const auto shifted = hn::ShiftLeft<23 - Format::kMantissa>(magnitude);
    const auto normal = hn::Add(shifted, hn::Set(du, Format::kBias << 23));
    const auto denormal =
        hn::BitCast(du, hn::Mul(hn::ConvertTo(d, signed_magnitude), hn::Set(d, Format::kDenormalUnit)));
    // Beyond the largest: infinity and NaN of E5M2 by their mantissa, NaN of E4M3.
    const auto special = kIsE5M2 ? hn::Or(shifted, hn::Set(du, 0x7f800000u)) : hn::Set(du, 0x7fc00000u);
    const auto is_special = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, Format::kLargestCode)));
    const auto is_denormal = hn::RebindMask(du, hn::Lt(signed_magnitude, hn::Set(di, 1 << Format::kMantissa)));
    const auto value = hn::IfThenElse(is_denormal, denormal, hn::IfThenElse(is_special, special, normal));
    return hn::BitCast(d, hn::Or(sign, value));
#endif
  }

  template <class D>
  static HWY_INLINE void store(D d, Vector<D> v, const To& to) {
    const hn::RebindToUnsigned<D> du;
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(du, v);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
    const auto signed_magnitude = hn::BitCast(di, magnitude);
    const auto is_nan = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x7f800000)));
    const auto bounded = hn::Min(signed_magnitude, hn::Set(di, Format::kLargest));
#if HOCKET_HALF_IN_HARDWARE
    // A sum with the number whose ulp is that of the result, or of the denormals, rounds to the format: a half holds it
    // then. Codes as in load().
    const auto exponent = hn::And(bounded, hn::Set(di, 0x7f800000));
    const auto rounder = hn::BitCast(d, hn::Add(hn::Max(exponent, hn::Set(di, Format::kSmallestNormal)),
                                                hn::Set(di, (23 - Format::kMantissa) << 23)));
    auto rounded = hn::Sub(hn::Add(hn::BitCast(d, bounded), rounder), rounder);
    if constexpr (kIsE5M2) {
      const auto is_infinite = hn::Eq(signed_magnitude, hn::Set(di, 0x7f800000));
      rounded = hn::IfThenElse(hn::RebindMask(d, is_infinite), hn::BitCast(d, magnitude), rounded);
    } else {
      rounded = hn::IfThenElse(hn::RebindMask(d, is_nan), hn::Set(d, 480.0f), rounded);
      rounded = hn::Mul(rounded, hn::Set(d, 0x1p-8f));
    }
    rounded = hn::Or(rounded, hn::BitCast(d, hn::AndNot(hn::Set(du, 0x7fffffffu), bits)));
    if constexpr (kIsE5M2) rounded = hn::IfThenElse(hn::RebindMask(d, is_nan), nan(d), rounded);
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<hwy::float16_t, D> d_half;
    store_halves(d, hn::BitCast(d16, hn::DemoteTo(d_half, rounded)), to);
#else
    constexpr int kShift = 23 - Format::kMantissa;
    const auto sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(du, 0x80u));
    const auto rounder = hn::Set(d, Format::kDenormalRounder);
    const auto denormal =
        hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, magnitude), rounder)), hn::BitCast(du, rounder));
    const auto positive = hn::BitCast(du, bounded);
    const auto odd = hn::And(hn::ShiftRight<kShift>(positive), hn::Set(du, 1u));
    const auto rounded = hn::Add(hn::Add(positive, hn::Set(du, (1u << (kShift - 1)) - 1)), odd);
    const auto normal = hn::ShiftRight<kShift>(hn::Sub(rounded, hn::Set(du, Format::kBias << 23)));
    const auto is_denormal = hn::RebindMask(du, hn::Lt(signed_magnitude, hn::Set(di, Format::kSmallestNormal)));
    const auto is_special = hn::RebindMask(du, hn::Gt(signed_magnitude, hn::Set(di, 0x7f7fffff)));
    auto value = hn::IfThenElse(is_denormal, denormal, normal);
    value = hn::IfThenElse(is_special, hn::Set(du, Format::kInfinity), value);
    value = hn::IfThenElse(is_nan, hn::Set(du, Format::kNan), value);
    store_low_bytes(d, hn::Or(sign, value), to);
#endif
  }

 private:
  template <class D>
  static HWY_INLINE Vector<D> nan(D d) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::Set(du, 0x7fc00000u));
  }

#if HOCKET_HALF_IN_HARDWARE
  // Codes as the bits of halves, and back.
  template <class D>
  static HWY_INLINE Vector<hn::Rebind<std::uint16_t, D>> load_as_halves(D, const Byte* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    const hn::Rebind<std::int16_t, D> d16_signed;
    if constexpr (is_one_lane<D>()) {
      const unsigned code = load_one<std::uint8_t>(from);
      return hn::Set(d16, static_cast<std::uint16_t>(kIsE5M2 ? code << 8 : (code & 0x80u) << 8 | (code & 0x7fu) << 7));
    } else if constexpr (kIsE5M2) {
      const hn::Rebind<std::uint8_t, D> d8;
      return hn::ShiftLeft<8>(hn::PromoteTo(d16, load_vector(d8, from)));
    } else {
      // The sign is spread to the left and shifted along; the bit next to it has to be zero.
      const hn::Rebind<std::int8_t, D> d8;
      const auto spread = hn::BitCast(d16, hn::PromoteTo(d16_signed, load_vector(d8, from)));
      return hn::And(hn::ShiftLeft<7>(spread), hn::Set(d16, std::uint16_t{0xbfff}));
    }
  }
  template <class D, class V>
  static HWY_INLINE void store_halves(D, V halves, const To& to) {
    const hn::Rebind<std::uint16_t, D> d16;
    auto codes = hn::ShiftRight<8>(halves);
    if constexpr (!kIsE5M2) {
      codes = hn::Or(hn::And(codes, hn::Set(d16, std::uint16_t{0x80})),
                     hn::And(hn::ShiftRight<7>(halves), hn::Set(d16, std::uint16_t{0x7f})));
    }
    if constexpr (is_one_lane<D>()) {
      store_one<std::uint8_t>(static_cast<std::uint8_t>(hn::GetLane(codes)), to);
    } else {
      const hn::Rebind<std::uint8_t, D> d8;
      const hn::Rebind<std::int16_t, D> d16_signed;
      store_vector(d8, hn::DemoteTo(d8, hn::BitCast(d16_signed, codes)), to);
    }
  }
#endif
};

// ---- Operations. `enter` is applied to each source, `leave` to the result.

struct Identity {
  template <class D>
  static HWY_INLINE Vector<D> enter(D, Vector<D> v) {
    return v;
  }
  template <class D>
  static HWY_INLINE Vector<D> leave(D, Vector<D> v) {
    return v;
  }
};

struct Sum : Identity {
  static constexpr bool kDivides = false;
  template <class D>
  static HWY_INLINE Vector<D> combine(D, Vector<D> a, Vector<D> b) {
    return hn::Add(a, b);
  }
};

struct Average : Sum {
  static constexpr bool kDivides = true;
  static constexpr bool kNarrow = false;
};

// Of 8-bit integers in wider lanes: the sum wraps before it is divided.
template <class T>
struct NarrowAverage : Average {
  static constexpr bool kNarrow = true;
  template <class D>
  static HWY_INLINE Vector<D> leave(D d, Vector<D> v) {
    if constexpr (static_cast<T>(-1) < 0) {
      return hn::ShiftRight<24>(hn::ShiftLeft<24>(v));
    } else {
      return hn::And(v, hn::Set(d, 0xff));
    }
  }
};

struct Product : Identity {
  static constexpr bool kDivides = false;
  template <class D>
  static HWY_INLINE Vector<D> combine(D, Vector<D> a, Vector<D> b) {
    return hn::Mul(a, b);
  }
};

// a < b ? a : b, so b if one is NaN or both are zeros. x86 has it as one instruction; other targets' Min is another
// function.
template <class D>
HWY_INLINE Vector<D> lesser(D, Vector<D> a, Vector<D> b) {
#if HOCKET_HALF_IN_HARDWARE
  return hn::Min(a, b);
#else
  return hn::IfThenElse(hn::Lt(a, b), a, b);
#endif
}

template <class D>
HWY_INLINE Vector<D> minimum(D d, Vector<D> a, Vector<D> b) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::Or(lesser(d, a, b), lesser(d, b, a));
  } else {
    return hn::Min(a, b);
  }
}

struct Min : Identity {
  static constexpr bool kDivides = false;
  template <class D>
  static HWY_INLINE Vector<D> combine(D d, Vector<D> a, Vector<D> b) {
    return minimum(d, a, b);
  }
};

struct Max {
  static constexpr bool kDivides = false;
  template <class D>
  static HWY_INLINE Vector<D> enter(D d, Vector<D> v) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::Xor(v, hn::SignBit(d));
    } else {
      return v;
    }
  }
  template <class D>
  static HWY_INLINE Vector<D> leave(D d, Vector<D> v) {
    return enter(d, v);
  }
  template <class D>
  static HWY_INLINE Vector<D> combine(D d, Vector<D> a, Vector<D> b) {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return minimum(d, a, b);
    } else {
      return hn::Max(a, b);
    }
  }
};

// ---- The division that ends an average.

template <class T>
struct Divisor {
  T value;
  T reciprocal;  // floats; exact if the value is a power of two
  int shift;     // its logarithm if it is a power of two, else -1
};

template <class T>
HWY_INLINE Divisor<T> make_divisor(int world_size) {
  const bool is_power = (world_size & (world_size - 1)) == 0;
  return {static_cast<T>(world_size), static_cast<T>(1) / static_cast<T>(world_size),
          is_power ? __builtin_ctz(static_cast<unsigned>(world_size)) : -1};
}

template <class D>
HWY_INLINE Vector<D> divide(D d, Vector<D> v, const Divisor<hn::TFromD<D>>& divisor) {
  using T = hn::TFromD<D>;
  if constexpr (hwy::IsFloat<T>()) {
    return divisor.shift >= 0 ? hn::Mul(v, hn::Set(d, divisor.reciprocal)) : hn::Div(v, hn::Set(d, divisor.value));
  } else if constexpr (is_one_lane<D>()) {
    return hn::Set(d, static_cast<T>(hn::GetLane(v) / divisor.value));
  } else {
    if (divisor.shift >= 0) {  // a shift rounds down: add value - 1 to negative numbers first
      if constexpr (static_cast<T>(-1) < 0) {
        const auto negative = hn::ShiftRight<sizeof(T) * 8 - 1>(v);
        v = hn::Add(v, hn::And(negative, hn::Set(d, static_cast<T>(divisor.value - 1))));
      }
      return hn::ShiftRightSame(v, divisor.shift);
    }
    // No CPU divides integer vectors.
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) lanes[i] = static_cast<T>(lanes[i] / divisor.value);
    return hn::Load(d, lanes);
  }
}

// Of lanes that hold 8 bits. The rounded quotient of floats is whole only if the true one is, and truncates to the
// same: that is at least 1/n away from the next whole number, and the error less than 255/n * 2^-24.
template <class D>
HWY_INLINE Vector<D> divide_narrow(D d, Vector<D> v, const Divisor<std::int32_t>& divisor) {
  if (divisor.shift >= 0) return divide(d, v, divisor);
  const hn::Rebind<float, D> d_float;
  const auto quotient = hn::Div(hn::ConvertTo(d_float, v), hn::Set(d_float, static_cast<float>(divisor.value)));
  return hn::ConvertTo(d, quotient);
}

// ---- One kernel.

template <class T>
struct Call {
  const Byte* const* sources;
  int source_count;
  Byte* first;
  Byte* second;                // or null
  bool stream_second = false;  // where the first is streamed: it is aligned alike
  Divisor<T> divisor;
};

template <class T>
constexpr std::uint64_t quiet_nan_bits() {
  return sizeof(T) == 4 ? 0x7fc00000u : 0x7ff8000000000000u;
}

template <class Op, class D>
HWY_INLINE Vector<D> leave(D d, Vector<D> v, const Divisor<hn::TFromD<D>>& divisor) {
  using T = hn::TFromD<D>;
  v = Op::leave(d, v);
  if constexpr (Op::kDivides) {
    if constexpr (Op::kNarrow) {
      v = divide_narrow(d, v, divisor);
    } else {
      v = divide(d, v, divisor);
    }
  }
  if constexpr (hwy::IsFloat<T>()) {
    const hn::RebindToUnsigned<D> du;
    using Bits = hn::TFromD<decltype(du)>;
    const auto quiet_nan = hn::BitCast(d, hn::Set(du, static_cast<Bits>(quiet_nan_bits<T>())));
    v = hn::IfThenElse(hn::IsNaN(v), quiet_nan, v);
  }
  return v;
}

// What a Type loads is a Vector or a Pair of them; the same calls for both.
template <class Op, class D>
HWY_INLINE Vector<D> enter(D d, Vector<D> v) {
  return Op::enter(d, v);
}
template <class Op, class D>
HWY_INLINE Pair<D> enter(D d, Pair<D> v) {
  return {Op::enter(d, v.even), Op::enter(d, v.odd)};
}
template <class Op, class D>
HWY_INLINE Vector<D> combine(D d, Vector<D> a, Vector<D> b) {
  return Op::combine(d, a, b);
}
template <class Op, class D>
HWY_INLINE Pair<D> combine(D d, Pair<D> a, Pair<D> b) {
  return {Op::combine(d, a.even, b.even), Op::combine(d, a.odd, b.odd)};
}
template <class Op, class D>
HWY_INLINE Pair<D> leave(D d, Pair<D> v, const Divisor<hn::TFromD<D>>& divisor) {
  return {leave<Op>(d, v.even, divisor), leave<Op>(d, v.odd, divisor)};
}

// Accumulators to a block of them and back.
template <class D>
HWY_INLINE void save(D d, Vector<D> v, hn::TFromD<D>* to) {
  hn::Store(v, d, to);
}
template <class D>
HWY_INLINE void save(D d, Pair<D> v, hn::TFromD<D>* to) {
  hn::Store(v.even, d, to);
  hn::Store(v.odd, d, to + hn::MaxLanes(d));
}
template <class D>
HWY_INLINE void restore(D d, const hn::TFromD<D>* from, Vector<D>& v) {
  v = hn::Load(d, from);
}
template <class D>
HWY_INLINE void restore(D d, const hn::TFromD<D>* from, Pair<D>& v) {
  v = {hn::Load(d, from), hn::Load(d, from + hn::MaxLanes(d))};
}

template <class Type, class Op, class D>
HWY_INLINE auto load(D d, const Byte* from) {
  return enter<Op>(d, Type::load(d, from));
}

// kSources is their number, or 0: any, from the call.
template <class Type, class Op, int kSources, class D>
HWY_INLINE auto reduce_vector(D d, const Call<typename Type::Lane>& call, std::size_t at) {
  const int n = kSources ? kSources : call.source_count;
  const std::size_t offset = at * sizeof(typename Type::Stored);
  auto sum = load<Type, Op>(d, call.sources[0] + offset);
  for (int s = 1; s < n; ++s) sum = combine<Op>(d, sum, load<Type, Op>(d, call.sources[s] + offset));
  return leave<Op>(d, sum, call.divisor);
}

template <class Type, class D, class V>
HWY_INLINE void store_both(D d, V v, const Call<typename Type::Lane>& call, std::size_t at, bool stream) {
  const std::size_t offset = at * sizeof(typename Type::Stored);
  Type::store(
      d, v,
      To{call.first + offset, call.second ? call.second + offset : nullptr, stream, stream && call.stream_second});
}

// The sources [first, last) over the elements [begin, end), whole strips. Accumulators start from `partial` unless
// first is 0, and end there unless last is the number of sources.
template <class Type, class Op, int kSources, class D>
HWY_INLINE void reduce_strips(D d, const Call<typename Type::Lane>& call, int first, int last, std::size_t begin,
                              std::size_t end, bool stream, typename Type::Lane* partial) {
  constexpr std::size_t kElements = Type::template kElements<D>;
  constexpr std::size_t kStride = kElements * sizeof(typename Type::Stored);
  for (std::size_t at = begin; at < end; at += 4 * kElements) {
    const std::size_t offset = at * sizeof(typename Type::Stored);
    const Byte* from = call.sources[first] + offset;
    auto v0 = load<Type, Op>(d, from);
    auto v1 = load<Type, Op>(d, from + kStride);
    auto v2 = load<Type, Op>(d, from + 2 * kStride);
    auto v3 = load<Type, Op>(d, from + 3 * kStride);
    if (kSources == 0 && first != 0) {
      auto sum = v0;
      restore(d, partial + (at - begin), sum);
      v0 = combine<Op>(d, sum, v0);
      restore(d, partial + (at - begin) + kElements, sum);
      v1 = combine<Op>(d, sum, v1);
      restore(d, partial + (at - begin) + 2 * kElements, sum);
      v2 = combine<Op>(d, sum, v2);
      restore(d, partial + (at - begin) + 3 * kElements, sum);
      v3 = combine<Op>(d, sum, v3);
    }
    for (int s = first + 1; s < last; ++s) {
      from = call.sources[s] + offset;
      v0 = combine<Op>(d, v0, load<Type, Op>(d, from));
      v1 = combine<Op>(d, v1, load<Type, Op>(d, from + kStride));
      v2 = combine<Op>(d, v2, load<Type, Op>(d, from + 2 * kStride));
      v3 = combine<Op>(d, v3, load<Type, Op>(d, from + 3 * kStride));
    }
    if (kSources == 0 && last != call.source_count) {
      save(d, v0, partial + (at - begin));
      save(d, v1, partial + (at - begin) + kElements);
      save(d, v2, partial + (at - begin) + 2 * kElements);
      save(d, v3, partial + (at - begin) + 3 * kElements);
      continue;
    }
    store_both<Type>(d, leave<Op>(d, v0, call.divisor), call, at, stream);
    store_both<Type>(d, leave<Op>(d, v1, call.divisor), call, at + kElements, stream);
    store_both<Type>(d, leave<Op>(d, v2, call.divisor), call, at + 2 * kElements, stream);
    store_both<Type>(d, leave<Op>(d, v3, call.divisor), call, at + 3 * kElements, stream);
  }
}

// Elements [begin, end), at least one vector of them.
template <class Type, class Op, int kSources, class D>
HWY_INLINE void reduce_vectors(D d, const Call<typename Type::Lane>& call, std::size_t begin, std::size_t end,
                               bool stream) {
  using Lane = typename Type::Lane;
  constexpr std::size_t kStored = sizeof(typename Type::Stored);
  constexpr std::size_t kElements = Type::template kElements<D>;
  std::size_t at = begin;
  auto head = Type::load(d, call.sources[0] + begin * kStored);  // a value to start with
  // Streamed stores must be aligned; of others, those that are not touch two lines each, which shows from some on.
  if (stream || end - begin >= 64 * kElements) {
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(call.first + begin * kStored) % (kElements * kStored);
    if (beyond % kStored != 0 || kElements * kStored < 16) {
      stream = false;  // no element of it is ever aligned
    } else if (beyond != 0) {
      head = reduce_vector<Type, Op, kSources>(d, call, begin);
      at += kElements - beyond / kStored;
    }
  }
  const bool has_head = at != begin;
  const bool has_rest = (end - at) % kElements != 0;
  auto rest = head;
  if (has_rest) rest = reduce_vector<Type, Op, kSources>(d, call, end - kElements);

  const std::size_t strips_end = at + (end - at) / (4 * kElements) * (4 * kElements);
  if constexpr (kSources != 0) {
    reduce_strips<Type, Op, kSources>(d, call, 0, kSources, at, strips_end, stream, nullptr);
    at = strips_end;
  } else {
    HWY_ALIGN Lane partial[kPartialBytes / sizeof(Lane)];
    constexpr std::size_t kBlock = kPartialBytes / sizeof(Lane);
    const int n = call.source_count;
    while (at < strips_end) {
      const std::size_t block_end = n <= kGroup || strips_end - at <= kBlock ? strips_end : at + kBlock;
      for (int first = 0; first < n; first += kGroup) {
        const int last = n - first <= kGroup ? n : first + kGroup;
        reduce_strips<Type, Op, kSources>(d, call, first, last, at, block_end, stream, partial);
      }
      at = block_end;
    }
  }
  for (; at + kElements <= end; at += kElements) {
    store_both<Type>(d, reduce_vector<Type, Op, kSources>(d, call, at), call, at, stream);
  }
  if (has_head) store_both<Type>(d, head, call, begin, false);
  if (has_rest) store_both<Type>(d, rest, call, end - kElements, false);
}

template <class Type, class Op, int kSources>
HWY_NOINLINE void reduce_span(const Call<typename Type::Lane>& call, std::size_t begin, std::size_t end, bool stream) {
  using Lane = typename Type::Lane;
  const hn::ScalableTag<Lane> d;
  const hn::CappedTag<Lane, 16 / sizeof(Lane)> d_short;
  const hn::CappedTag<Lane, 1> d_one;
  using Wide = typename Type::Wide;
  constexpr std::size_t kWide = Wide::template kElements<decltype(d)>;
  const std::size_t count = end - begin;
  if (count >= kWide) {
    reduce_vectors<Wide, Op, kSources>(d, call, begin, end, stream);
  } else if (hn::MaxLanes(d_short) < kWide && count >= hn::MaxLanes(d_short)) {
    const std::size_t last = end - hn::MaxLanes(d_short);
    const auto rest = reduce_vector<Type, Op, kSources>(d_short, call, last);
    for (std::size_t at = begin; at < last; at += hn::MaxLanes(d_short)) {
      store_both<Type>(d_short, reduce_vector<Type, Op, kSources>(d_short, call, at), call, at, false);
    }
    store_both<Type>(d_short, rest, call, last, false);
  } else {
    for (std::size_t at = begin; at < end; ++at) {
      store_both<Type>(d_one, reduce_vector<Type, Op, kSources>(d_one, call, at), call, at, false);
    }
  }
}

// More than two destinations, or slots: block by block, from the first ordinary destination, or from a block of our own
// if there is none or it is streamed and so not in the cache.
template <class Type, class Op, int kSources>
HWY_NOINLINE void reduce_blocks(Call<typename Type::Lane> call, const ReduceArgs& args) {
  constexpr std::size_t kStored = sizeof(typename Type::Stored);
  constexpr std::size_t kBlock = kBlockBytes / kStored;
  HWY_ALIGN Byte block[kBlockBytes];
  const int stream = args.stream && (args.slot_destinations & 1u) == 0 ? 0 : -1;
  int kept = 0;  // destination that the others are copied from
  while (kept < args.destination_count && (args.stream || (args.slot_destinations >> kept & 1u) != 0)) ++kept;
  for (std::size_t begin = 0; begin < args.count; begin += kBlock) {
    const std::size_t end = args.count - begin < kBlock ? args.count : begin + kBlock;
    const std::size_t bytes = (end - begin) * kStored;
    Byte* from = block;
    if (kept < args.destination_count) from = static_cast<Byte*>(args.destinations[kept]) + begin * kStored;
    call.first = stream == 0 ? static_cast<Byte*>(args.destinations[0]) : from - begin * kStored;
    call.second = stream == 0 ? from - begin * kStored : nullptr;
    reduce_span<Type, Op, kSources>(call, begin, end, stream == 0);
    for (int k = 0; k < args.destination_count; ++k) {
      if (k == kept || k == stream) continue;
      Byte* to = static_cast<Byte*>(args.destinations[k]) + begin * kStored;
      if ((args.slot_destinations >> k & 1u) != 0) {
        reduce_fill_slot(to, from, bytes);
      } else if (args.stream) {
        reduce_stream(to, from, bytes);
      } else {
        reduce_copy(to, from, bytes);
      }
    }
  }
}

template <class Type, class Op, int kSources>
HWY_INLINE void reduce_sources(const ReduceArgs& args) {
  using Lane = typename Type::Lane;
  const Byte* sources[kSources ? kSources : 1];
  Call<Lane> call;
  if constexpr (kSources != 0) {
    for (int s = 0; s < kSources; ++s) sources[s] = static_cast<const Byte*>(args.sources[s]);
    call.sources = sources;
  } else {
    call.sources = reinterpret_cast<const Byte* const*>(args.sources);
  }
  call.source_count = args.source_count;
  if constexpr (Op::kDivides) call.divisor = make_divisor<Lane>(args.world_size);
  if (args.destination_count > kMaxFusedDestinations ||
      (args.slot_destinations != 0 && args.count >= kSlotBytes / sizeof(typename Type::Stored))) {
    reduce_blocks<Type, Op, kSources>(call, args);
  } else {
    call.first = static_cast<Byte*>(args.destinations[0]);
    call.second = args.destination_count > 1 ? static_cast<Byte*>(args.destinations[1]) : nullptr;
    call.stream_second =
        (reinterpret_cast<std::uintptr_t>(call.first) - reinterpret_cast<std::uintptr_t>(call.second)) % 64 == 0 &&
        (args.slot_destinations & 2u) == 0;
    reduce_span<Type, Op, kSources>(call, 0, args.count, args.stream);
  }
  if (args.stream) hwy::FlushStream();  // the Signal that follows is a plain store
}

template <class Type, class Op>
void reduce(const ReduceArgs& args) {
  if constexpr (Op::kDivides) {
    if (!args.finish) return reduce<Type, Sum>(args);
  }
  // Two sources are the commonest Move. Where elements are converted, that takes the time, and a kernel more would only
  // be compiled.
  constexpr bool kConverts = sizeof(typename Type::Stored) == 1 && sizeof(typename Type::Lane) != 1;
  if constexpr (!kConverts) {
    if (args.source_count == 2) return reduce_sources<Type, Op, 2>(args);
  }
  reduce_sources<Type, Op, 0>(args);
}

// ---- The scaling of a premultiplied sum.

template <class Type, class D>
HWY_INLINE void scale_vector(D d, const Byte* from, Byte* to, typename Type::Lane factor) {
  using Lane = typename Type::Lane;
  auto v = hn::Mul(Type::load(d, from), hn::Set(d, factor));
  Type::store(d, leave<Sum>(d, v, Divisor<Lane>{}), To{to, nullptr, false, false});
}

template <class Type>
void scale(const void* from, void* to, std::size_t count, std::uint64_t scalar) {
  using Lane = typename Type::Lane;
  constexpr std::size_t kStored = sizeof(typename Type::Stored);
  const hn::ScalableTag<Lane> d;
  const hn::CappedTag<Lane, 1> d_one;
  constexpr std::size_t kElements = Type::template kElements<decltype(d)>;
  Lane factor;
  __builtin_memcpy(&factor, &scalar, sizeof factor);
  const Byte* in = static_cast<const Byte*>(from);
  Byte* out = static_cast<Byte*>(to);
  std::size_t at = 0;
  for (; at + kElements <= count; at += kElements) scale_vector<Type>(d, in + at * kStored, out + at * kStored, factor);
  for (; at < count; ++at) scale_vector<Type>(d_one, in + at * kStored, out + at * kStored, factor);
}

#undef HOCKET_HALF_IN_HARDWARE

}  // namespace

#define HOCKET_ROW(type) \
  { reduce<type, Sum>, reduce<type, Product>, reduce<type, Min>, reduce<type, Max>, reduce<type, Average> }
// 8-bit integers: no CPU multiplies vectors of them.
#define HOCKET_NARROW_ROW(type)                                                               \
  {                                                                                           \
    reduce<Plain<type>, Sum>, reduce<NarrowInteger<type>, Product>, reduce<Plain<type>, Min>, \
        reduce<Plain<type>, Max>, reduce<NarrowInteger<type>, NarrowAverage<type>>            \
  }
// In the order of DataType and ReduceOp.
extern const ReduceTable kReduceTable;
constexpr ReduceTable kReduceTable = {
    {
        HOCKET_ROW(Plain<float>),
        HOCKET_ROW(Plain<double>),
        HOCKET_ROW(Bfloat16Bits),
        HOCKET_ROW(HalfBits),
        HOCKET_ROW(Plain<std::int32_t>),
        HOCKET_ROW(Plain<std::int64_t>),
        HOCKET_NARROW_ROW(std::int8_t),
        HOCKET_NARROW_ROW(std::uint8_t),
        HOCKET_ROW(Plain<std::uint32_t>),
        HOCKET_ROW(Plain<std::uint64_t>),
        HOCKET_ROW(Float8Bits<E4M3Format>),
        HOCKET_ROW(Float8Bits<E5M2Format>),
    },
    {
        scale<Plain<float>>,
        scale<Plain<double>>,
        scale<Bfloat16Bits>,
        scale<HalfBits>,
        scale<Plain<std::int32_t>>,
        scale<Plain<std::int64_t>>,
        scale<NarrowInteger<std::int8_t>>,
        scale<NarrowInteger<std::uint8_t>>,
        scale<Plain<std::uint32_t>>,
        scale<Plain<std::uint64_t>>,
        scale<Float8Bits<E4M3Format>>,
        scale<Float8Bits<E5M2Format>>,
    },
};
#undef HOCKET_ROW
#undef HOCKET_NARROW_ROW

}  // namespace hocket::HOCKET_REDUCE_TARGET
HWY_AFTER_NAMESPACE();
