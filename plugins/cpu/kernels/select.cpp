#include <string>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/simd/detect.h"

namespace bonsai::cpu {
namespace {

bool always() { return true; }

struct Tier {
  const KernelTable &(*kernels)();
  bool (*runs)();
  const char *needs;                // what the machine lacks when it does not run
  bool (*is_good_here)() = always;  // where it runs: whether it is better than those that follow
};

// The best first.
constexpr Tier kTiers[] = {
#if defined(__x86_64__)
    {avx512_amx_kernels, cpu_has_avx512_amx, "AVX-512 F, BW, DQ, VL and VNNI, and AMX-INT8"},
    {avx512_panels32_kernels, cpu_has_avx512_bmi2, "AVX-512 F, BW, DQ, VL and VNNI, and BMI2", cpu_is_zen5_or_later},
    {avx512_panels_kernels, cpu_has_avx512, "AVX-512 F, BW, DQ, VL and VNNI", cpu_is_intel},  // Zen 4: not measured
    {avx512_kernels, cpu_has_avx512, "AVX-512 F, BW, DQ, VL and VNNI"},
    {avx2_vnni_kernels, cpu_has_avx2_vnni, "AVX-VNNI, AVX2, FMA and F16C"},
    {avx2_kernels, cpu_has_avx2, "AVX2, FMA and F16C"},
#elif defined(__aarch64__)
    {neon_kernels, cpu_has_dotprod, "dot products of bytes (FEAT_DotProd)"},
#endif
    {portable_kernels, always, "nothing"},
};

// Zen 3 and 4 are slower with the first level, Zen 5 with the second; Granite Rapids with early requests, Emerald
// Rapids with late ones, with the first level and with one stream. Nothing else was measured: Sapphire Rapids is taken
// for the latter, Intel's others with tile registers for the former.
Prefetch find_best_prefetch() {
#if defined(__x86_64__)
  if (cpu_is_sapphire_or_emerald_rapids()) return Prefetch::kSecondLevelTwoStreams;
  if (cpu_has_tiles()) return Prefetch::kSecondLevelLate;
  if (cpu_is_zen5_or_later()) return Prefetch::kFirstLevel;
#endif
  return Prefetch::kSecondLevel;
}

}  // namespace

// A virtual machine takes longer than a kernel to say what its processor is.
Prefetch best_prefetch() {
  static const Prefetch best = find_best_prefetch();
  return best;
}

const KernelTable *select_kernels(std::string_view isa, std::string *why_not) {
  std::string names = "auto";
  for (const Tier &tier : kTiers) {
    const KernelTable &table = tier.kernels();
    names.append(", ").append(table.name);
    if (isa != "auto" && isa != table.name) continue;
    if (tier.runs() && (isa == table.name || tier.is_good_here())) return &table;
    if (isa == table.name) {
      *why_not = std::string("'").append(table.name) + "' needs " + tier.needs + ", not all of which this machine has";
      return nullptr;
    }
  }
  *why_not = "expected one of " + names;
  return nullptr;
}

std::vector<const KernelTable *> runnable_kernels() {
  std::vector<const KernelTable *> tables, others;
  for (const Tier &tier : kTiers) {
    if (tier.runs()) (tier.is_good_here() ? tables : others).push_back(&tier.kernels());
  }
  tables.insert(tables.end(), others.begin(), others.end());
  return tables;
}

}  // namespace bonsai::cpu
