// SPDX-License-Identifier: Apache-2.0
// topo/cpu_set.cpp: see cpu_set.hpp.
#include "topo/cpu_set.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <memory>

#include "base/status.hpp"

namespace hocket::topo {

namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// A whole field must be a number in range; from_chars alone would accept "3x".
bool parse_cpu(std::string_view field, int* cpu) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), *cpu);
  return error == std::errc() && end == field.data() + field.size() && *cpu >= 0 && *cpu < CpuSet::kLimit;
}

Result<CpuSet> affinity_of(pid_t id) {
  // The kernel refuses a buffer shorter than its own mask, whose length no call tells: grow until it fits.
  for (int cpus = 1024; cpus <= CpuSet::kLimit; cpus *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(static_cast<std::size_t>(cpus)),
                                                                [](cpu_set_t* m) { CPU_FREE(m); });
    if (!mask) return error(Code::kOutOfMemory, "no memory for an affinity mask of {} CPUs", cpus);
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    if (::sched_getaffinity(id, bytes, mask.get()) == 0) {
      CpuSet set;
      for (int cpu = 0; cpu < cpus; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.get())) set.add(cpu);
      }
      return set;
    }
    if (errno != EINVAL) break;
  }
  return system_error(Code::kSystem, errno, "sched_getaffinity");
}

}  // namespace

Result<CpuSet> CpuSet::parse_list(std::string_view text) {
  CpuSet set;
  std::string_view rest = trimmed(text);
  if (rest.empty()) return set;
  for (;;) {
    const auto comma = rest.find(',');
    const std::string_view field = trimmed(rest.substr(0, comma));
    const auto dash = field.find('-');
    int first = 0;
    int last = 0;
    bool good = parse_cpu(field.substr(0, dash), &first);
    last = first;
    if (good && dash != std::string_view::npos) good = parse_cpu(field.substr(dash + 1), &last) && last >= first;
    if (!good) return error(Code::kInvalidArgument, "CPU list '{}': '{}' is not a CPU or a range", text, field);
    set = set | range(first, last);
    if (comma == std::string_view::npos) return set;
    rest.remove_prefix(comma + 1);
  }
}

Result<CpuSet> CpuSet::parse_mask(std::string_view text) {
  CpuSet set;
  std::string_view rest = trimmed(text);
  if (rest.empty()) return error(Code::kInvalidArgument, "CPU mask is empty");
  int base = 0;
  for (;;) {  // from the lowest group, which is the last one
    const auto comma = rest.rfind(',');
    std::string_view group = trimmed(comma == std::string_view::npos ? rest : rest.substr(comma + 1));
    if (group.starts_with("0x")) group.remove_prefix(2);
    std::uint32_t bits = 0;
    const auto [end, bad] = std::from_chars(group.data(), group.data() + group.size(), bits, 16);
    if (group.empty() || bad != std::errc() || end != group.data() + group.size() || base >= kLimit)
      return error(Code::kInvalidArgument, "CPU mask '{}': '{}' is not a 32-bit hexadecimal group", text, group);
    for (int bit = 0; bit < 32; ++bit) {
      if (bits >> bit & 1) set.add(base + bit);
    }
    if (comma == std::string_view::npos) return set;
    rest = rest.substr(0, comma);
    base += 32;
  }
}

CpuSet CpuSet::range(int first, int last) {
  CpuSet set;
  first = std::max(first, 0);
  last = std::min(last, kLimit - 1);
  if (first > last) return set;
  set.words_.resize(static_cast<std::size_t>(last) / 64 + 1);
  const auto low = static_cast<std::size_t>(first) / 64;
  for (std::size_t word = low; word < set.words_.size(); ++word) set.words_[word] = ~0ull;
  set.words_[low] &= ~0ull << (first % 64);
  set.words_.back() &= ~0ull >> (63 - last % 64);
  return set;
}

Result<CpuSet> CpuSet::of_this_thread() {
  return affinity_of(0);
}

Result<CpuSet> CpuSet::of_this_process() {
  HOCKET_ASSIGN(const CpuSet thread, affinity_of(0));
  const Result<CpuSet> main_thread = affinity_of(::getpid());
  return main_thread.ok() ? thread | *main_thread : thread;  // the main thread may have ended
}

void CpuSet::add(int cpu) {
  if (cpu < 0 || cpu >= kLimit) return;
  const auto word = static_cast<std::size_t>(cpu) / 64;
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= 1ull << (cpu % 64);
}

bool CpuSet::has(int cpu) const {
  if (cpu < 0 || cpu >= kLimit) return false;
  const auto word = static_cast<std::size_t>(cpu) / 64;
  return word < words_.size() && (words_[word] >> (cpu % 64) & 1);
}

int CpuSet::count() const {
  int n = 0;
  for (const std::uint64_t word : words_) n += std::popcount(word);
  return n;
}

int CpuSet::first() const {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (words_[i]) return static_cast<int>(i * 64) + std::countr_zero(words_[i]);
  }
  return -1;
}

int CpuSet::last() const {
  return words_.empty() ? -1 : static_cast<int>(words_.size() * 64) - 1 - std::countl_zero(words_.back());
}

bool CpuSet::contains(const CpuSet& other) const {
  return (*this & other) == other;
}

bool CpuSet::intersects(const CpuSet& other) const {
  return !(*this & other).empty();
}

CpuSet CpuSet::operator|(const CpuSet& other) const {
  CpuSet set = words_.size() >= other.words_.size() ? *this : other;
  const CpuSet& less = words_.size() >= other.words_.size() ? other : *this;
  for (std::size_t i = 0; i < less.words_.size(); ++i) set.words_[i] |= less.words_[i];
  return set;
}

CpuSet CpuSet::operator&(const CpuSet& other) const {
  CpuSet set;
  set.words_.resize(std::min(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < set.words_.size(); ++i) set.words_[i] = words_[i] & other.words_[i];
  set.trim();
  return set;
}

void CpuSet::trim() {
  while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

std::vector<int> CpuSet::to_vector() const {
  std::vector<int> cpus;
  for (int cpu = first(); cpu >= 0 && cpu <= last(); ++cpu) {
    if (has(cpu)) cpus.push_back(cpu);
  }
  return cpus;
}

std::string CpuSet::to_string() const {
  std::string text;
  const std::vector<int> cpus = to_vector();
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t end = i;
    while (end + 1 < cpus.size() && cpus[end + 1] == cpus[end] + 1) ++end;
    if (!text.empty()) text += ',';
    text += end == i ? format("{}", cpus[i]) : format("{}-{}", cpus[i], cpus[end]);
    i = end + 1;
  }
  return text;
}

}  // namespace hocket::topo
