// Changing a weight's format without changing a weight, for devices that do not take the file's own.
#pragma once

#include <cstddef>
#include <span>

#include "core/quant/format.h"

namespace bonsai::quant {

// Formats that can hold the weights of `format` exactly, itself excluded; the first that a device takes and that
// transcode() manages is the one to use. F16 and BF16 become F32; ternary packings become one another, those of 2-bit
// codes first, because kernels unpack these faster than base 3. Empty for the others.
std::span<const Format> lossless_targets(Format format);

// Whether transcode() may succeed: `to` is `from` or among its targets.
bool can_transcode(Format from, Format to);

// Writes `n` weights, whole blocks of `from`, as blocks of `to`; they decode to the same floats, bit for bit. Returns
// false, with `result` partly written, where `to` cannot hold them: code 3 in base 3; blocks with different scales
// where `to` has one for them together; n that is no multiple of `to`'s block. Never false for F32 and, if n fits, for
// a target whose blocks divide those of `from`, code 3 aside. Precondition: can_transcode(from, to).
bool transcode(Format from, Format to, const std::byte *blocks, std::byte *result, size_t n);

}  // namespace bonsai::quant
