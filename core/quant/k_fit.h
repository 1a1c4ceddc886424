// Finding the numbers of a super-block, or of a block of IQ4_NL: our own search, for the least squared error over the
// block.
//
// 1. Each sub-block alone: several spreads of the codes are tried, each with its best real scale (and minimum).
// 2. d (and dmin) such that the largest scale is the largest integer (IQ4_XS: or one of the next); with minima, also
//    such that all scales are near multiples of d. Then each sub-block takes the integer scale (and minimum) nearby
//    that serves it best with d as a half can hold it.
// 3. With scales and codes held, the best d (and dmin) is a linear least-squares problem; 2 and 3 repeat while it
// helps.
//
// Sums are made in lanes with a fixed order, so that the same weights give the same bytes on every machine.
#pragma once

#include <cstdint>

#include "core/quant/iq4_blocks.h"
#include "core/quant/k_packing.h"

namespace bonsai::quant {

// `weights` are kSuperBlock. NaN counts as 0. Where a half cannot hold d, and for infinities, d is infinite, as in the
// other formats: a weight that cannot be kept is not quietly made a smaller one.
template <class Packing>
typename Packing::Block fit(const float *weights);

extern template AffineBlock fit<KPacking<2>>(const float *);
extern template SymmetricBlock fit<KPacking<3>>(const float *);
extern template AffineBlock fit<KPacking<4>>(const float *);
extern template AffineBlock fit<KPacking<5>>(const float *);
extern template SymmetricBlock fit<KPacking<6>>(const float *);
template <>
IQ4Block fit<IQ4_XS>(const float *);

// The d and the 32 codes of a block of IQ4_NL, likewise.
float fit_iq4(const float *weights, uint8_t *codes);

}  // namespace bonsai::quant
