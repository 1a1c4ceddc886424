// cpu_kernels_digest TIER...
//
// Prints a digest of the portable tier's results for each section, and fails where one of the named tiers does not give
// the same bytes. `auto` is every tier that the machine runs.
#include <cstdio>
#include <cstring>
#include <string_view>

#include "core/base/floating_point_environment.h"
#include "tests/plugins/cpu/digest/digest.h"

namespace bonsai::cpu::digest {

namespace {

// Rounding upwards and flushing subnormals: what a host may have set.
#if defined(__x86_64__)
constexpr uint32_t kHostile = 0x1F80 | 0x4000 | 0x8040;   // RC = up; FTZ, DAZ
uint32_t environment() { return _mm_getcsr() & ~0x3Fu; }  // but for the exceptions that have occurred
void set_environment(uint32_t value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
constexpr uint64_t kHostile = 1u << 22 | 1u << 24 | 1u << 25;  // RMode = up; FZ, DN
uint64_t environment() {
  uint64_t value;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
}
void set_environment(uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#endif

// Whether a product is subnormal, as it is in the default environment.
bool keeps_subnormals() {
  volatile float small = 0x1p-100f, smaller = 0x1p-40f;
  volatile float product = small * smaller;
  return product != 0.0f;
}

bool fail(const char *what) {
  std::fprintf(stderr, "cpu_kernels_digest: %s\n", what);
  return false;
}

uint64_t fnv1a(const std::vector<uint32_t> &words) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const uint32_t word : words) {
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ (word >> shift & 0xFF)) * 0x100000001B3;
  }
  return hash;
}

bool same(const Section &section, const KernelTable &tier, const Results &actual, const Results &expected) {
  if (actual.words().size() != expected.words().size()) {
    std::fprintf(stderr, "%s: %s gives %zu words, portable %zu\n", section.name.c_str(), tier.name,
                 actual.words().size(), expected.words().size());
    return false;
  }
  for (size_t i = 0; i < expected.words().size(); ++i) {
    if (actual.words()[i] == expected.words()[i]) continue;
    std::fprintf(stderr, "%s: %s gives %08x for word %zu, portable %08x\n", section.name.c_str(), tier.name,
                 actual.words()[i], i, expected.words()[i]);
    return false;
  }
  return true;
}

bool run(const Section &section, std::span<const KernelTable *const> tiers) {
  const Results expected = section.run(portable_kernels(), section.format);
  std::printf("%-24s %8zu words %016llx\n", section.name.c_str(), expected.words().size(),
              static_cast<unsigned long long>(fnv1a(expected.words())));
  bool all = true;
  for (const KernelTable *tier : tiers) {
    all &= same(section, *tier, section.run(*tier, section.format), expected);
  }
  return all;
}

bool run_all(std::span<const KernelTable *const> tiers) {
  const DefaultFloatingPoint environment;
  if (!keeps_subnormals()) return fail("subnormals are flushed in the environment of the kernels");
  bool all = true;
  for (const Section &section : vocabulary_sections()) all &= run(section, tiers);
  for (const Section &section : product_sections()) all &= run(section, tiers);
  for (const Section &section : row_sections()) all &= run(section, tiers);
  return all;
}

bool find_tiers(std::span<char *const> names, std::vector<const KernelTable *> &tiers) {
  for (const std::string_view name : names) {
    if (name == "auto") {
      tiers = runnable_kernels();
      continue;
    }
    std::string why_not;
    const KernelTable *tier = select_kernels(name, &why_not);
    if (!tier) return fail(why_not.c_str());
    tiers.push_back(tier);
  }
  return true;
}

bool main(std::span<char *const> names) {
  std::vector<const KernelTable *> tiers;
  if (names.empty()) return fail("expected the names of tiers, or auto");
  if (!find_tiers(names, tiers)) return false;
  set_environment(kHostile);
  if (keeps_subnormals()) return fail("the hostile environment is not in force");
  const bool all = run_all(tiers);
  if (environment() != kHostile) return fail("the thread does not have its floating-point environment back");
  for (const KernelTable *tier : tiers) std::fprintf(stderr, "%s: compared with portable\n", tier->name);
  return all;
}

}  // namespace
}  // namespace bonsai::cpu::digest

int main(int argc, char **argv) {
  return bonsai::cpu::digest::main({argv + 1, static_cast<size_t>(argc > 0 ? argc - 1 : 0)}) ? 0 : 1;
}
