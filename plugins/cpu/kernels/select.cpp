#include <string>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/simd/detect.h"

namespace bonsai::cpu {
namespace {

struct Tier {
  const KernelTable &(*kernels)();
  bool (*runs)();
  const char *needs;  // what the machine lacks when it does not run
};

bool always() { return true; }

// The best first.
constexpr Tier kTiers[] = {
#if defined(__x86_64__)
    {avx512_amx_kernels, cpu_has_avx512_amx, "AVX-512 F, BW, DQ, VL and VNNI, and AMX-INT8"},
    {avx512_kernels, cpu_has_avx512, "AVX-512 F, BW, DQ, VL and VNNI"},
    {avx2_vnni_kernels, cpu_has_avx2_vnni, "AVX-VNNI, AVX2, FMA and F16C"},
    {avx2_kernels, cpu_has_avx2, "AVX2, FMA and F16C"},
#elif defined(__aarch64__)
    {neon_kernels, cpu_has_dotprod, "dot products of bytes (FEAT_DotProd)"},
#endif
    {portable_kernels, always, "nothing"},
};

// Zen 3 and 4 are slower with the first level, Zen 5 with the second; Granite Rapids with early requests. Nothing else
// was measured: Intel's others with tile registers are taken for the same.
Prefetch find_best_prefetch() {
#if defined(__x86_64__)
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
    if (tier.runs()) return &table;
    if (isa == table.name) {
      *why_not = std::string("'").append(table.name) + "' needs " + tier.needs + ", not all of which this machine has";
      return nullptr;
    }
  }
  *why_not = "expected one of " + names;
  return nullptr;
}

std::vector<const KernelTable *> runnable_kernels() {
  std::vector<const KernelTable *> tables;
  for (const Tier &tier : kTiers) {
    if (tier.runs()) tables.push_back(&tier.kernels());
  }
  return tables;
}

}  // namespace bonsai::cpu
