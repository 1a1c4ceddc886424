// In place of kernels/select.cpp: a backend whose only tiers are emulated.
#include <string>

#include "plugins/cpu/kernels/kernels.h"
#include "tests/plugins/cpu/kernels_avx2_vnni_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_amx_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_panels32_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_panels_emulated.h"

namespace bonsai::cpu {

const KernelTable *select_kernels(std::string_view isa, std::string *why_not) {
  if (isa == "auto") return &avx512_emulated_kernels();
  if (isa == "avx512-amx") return &avx512_amx_emulated_kernels();
  if (isa == "avx512-panels") return &avx512_panels_emulated_kernels();
  if (isa == "avx512-panels32") return &avx512_panels32_emulated_kernels();
  if (isa == "avx2-vnni") return &avx2_vnni_emulated_kernels();
  *why_not =
      "expected auto (avx512), avx512-amx, avx512-panels, avx512-panels32 or avx2-vnni: this is a backend for tests";
  return nullptr;
}

// Whatever this machine is faster with: some backend under test has this.
Prefetch best_prefetch() { return Prefetch::kFirstLevel; }

}  // namespace bonsai::cpu
