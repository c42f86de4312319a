// SPDX-License-Identifier: Apache-2.0
// exec/reduce.cpp: chooses the kernels' target by what the CPU has. The kernels are in reduce_kernels-inl.hpp.

#include "exec/reduce.hpp"

#include <atomic>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "exec/copy.hpp"
#include "exec/reduce_targets.hpp"

namespace hocket {
namespace {

struct Target {
  std::string_view name;
  const ReduceTable* table;
  bool (*is_supported)();
};

#if defined(__x86_64__)
// These are the sets that src/exec/CMakeLists.txt compiles the two units for. All CPUs with AVX2 have BMI, LZCNT and so
// on, but a hypervisor can hide each on its own.
bool has_f16c() {  // the builtin below doesn't know it in every compiler
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c() &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("aes") &&
         __builtin_cpu_supports("pclmul");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
}
#endif

// Best first.
constexpr Target kTargets[] = {
#if defined(__x86_64__)
    {"avx512", &avx512::kReduceTable, has_avx512},
    {"avx2", &avx2::kReduceTable, has_avx2},
#endif
    {"baseline", &baseline::kReduceTable, [] { return true; }},
};

const Target* find_target(std::string_view name) {
  for (const Target& target : kTargets) {
    if ((name.empty() || name == target.name) && target.is_supported()) return &target;
  }
  return nullptr;
}

// Null until the first use. Relaxed: what it points to is constant, and two first users find the same.
std::atomic<const Target*> chosen_target{nullptr};

const Target& target() {
  const Target* chosen = chosen_target.load(std::memory_order_relaxed);
  if (!chosen) {
    chosen = find_target("");
    chosen_target.store(chosen, std::memory_order_relaxed);
  }
  return *chosen;
}

}  // namespace

ReduceFunction reduce_function(DataType type, ReduceOp op) {
  if (op == ReduceOp::kUser) return nullptr;
  if (op == ReduceOp::kPremultipliedSum) op = ReduceOp::kSum;
  return target().table->functions[static_cast<int>(type)][static_cast<int>(op)];
}

ScaleFunction scale_function(DataType type) {
  return target().table->scale[static_cast<int>(type)];
}

std::string_view reduce_target() {
  return target().name;
}

bool set_reduce_target_for_test(std::string_view name) {
  const Target* found = find_target(name);
  if (!found) return false;
  chosen_target.store(found, std::memory_order_relaxed);
  return true;
}

void reduce_fill_slot(void* slot, const void* from, std::size_t bytes) {
  copy(slot, from, bytes, CopyHint::kSlot);
}
void reduce_copy(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes, CopyHint::kCached);
}
void reduce_stream(void* to, const void* from, std::size_t bytes) {
  copy(to, from, bytes, CopyHint::kStream);
}

}  // namespace hocket
