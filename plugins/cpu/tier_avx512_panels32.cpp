// The avx512-panels tier with sums that are multiplied in 32 bits, and with sums that are looked up group after group.
#define BONSAI_TIER avx512_panels32
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/avx512/bytes.h"
//
#include "plugins/cpu/simd/avx512/wide_factors.h"
//
#include "plugins/cpu/simd/avx512/abreast_lookup_in_turn.h"
//
#include "plugins/cpu/kernels/abreast_matmul.inl.h"
#include "plugins/cpu/kernels/panel_table.inl.h"

namespace bonsai::cpu {
namespace {

static_assert(avx512_panels32::PanelFormat<kQ6_KLayout>::kWide);

// How many vectors are worth unpacking a format's weights for on a Zen 5, which looks sums up twice as fast as others
// and takes as long for a panel of nine vectors as for one of twelve (docs/cpu-prompts.md, "Panels on Zen 5").
constexpr uint32_t fewest_vectors(quant::Format format) {
  using quant::Format;
  switch (format) {
    case Format::kF32:
    case Format::kF16:
    case Format::kBF16:
      return 8;
    case Format::kQ3_K:
    case Format::kQ6_K:
      return 13;
    case Format::kTQ1_0:
    case Format::kTQ2_0:
    case Format::kTQ1_0_G128:
    case Format::kTQ2_0_G128:
      return 18;
    case Format::kQ4_K:
    case Format::kIQ4_XS:
      return 24;
    case Format::kQ2_0_G64:
      return 32;
    case Format::kQ2_K:
      return 49;
    default:
      return 17;
  }
}

}  // namespace

const ManyVectors &avx512_panels32_many_vectors() {
  static constexpr ManyVectors kPanels = [] {
    ManyVectors many =
        avx512_panels32::many_vectors<avx512_panels32::PanelKernels, avx512_kernels, fewest_vectors>("avx512-panels32");
    many.abreast = avx512_panels32::abreast_kernel<avx512_panels32::AbreastLookupInTurn>();
    return many;
  }();
  return kPanels;
}

}  // namespace bonsai::cpu
