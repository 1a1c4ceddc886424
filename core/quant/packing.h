// How small codes share bytes: the same few arrangements serve every format that is not one byte a weight.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bonsai::quant {

// Codes of kBits, interleaved by runs: the first kRun codes are the lowest bits of kRun bytes, the next kRun codes the
// next bits of the same bytes, and so on until these bytes are full. ggml packs so, because one vector load then yields
// kRun codes of one run with a shift and a mask. `n` is a multiple of what kRun bytes hold.
template <uint32_t kBits, uint32_t kRun>
struct Interleaved {
  static constexpr uint32_t kRuns = 8 / kBits;  // that share kRun bytes
  static constexpr uint32_t kMask = (1u << kBits) - 1;

  // Ors the codes, shifted left by `shift`, into `codes`: the parts of a code may lie in different places.
  static void unpack(const std::byte *packed, uint8_t *codes, uint32_t n, uint32_t shift = 0) {
    for (; n > 0; n -= kRun * kRuns, packed += kRun) {
      for (uint32_t run = 0; run < kRuns; ++run, codes += kRun) {
        for (uint32_t i = 0; i < kRun; ++i) {
          const auto code = std::to_integer<uint32_t>(packed[i]) >> run * kBits & kMask;
          codes[i] = static_cast<uint8_t>(codes[i] | code << shift);
        }
      }
    }
  }

  // The inverse: kBits of each code, from bit `shift` on. Writes n * kBits / 8 bytes.
  static void pack(const uint8_t *codes, std::byte *packed, uint32_t n, uint32_t shift = 0) {
    for (; n > 0; n -= kRun * kRuns, packed += kRun, codes += kRun * kRuns) {
      for (uint32_t i = 0; i < kRun; ++i) {
        uint32_t bits = 0;
        for (uint32_t run = 0; run < kRuns; ++run) bits |= (codes[run * kRun + i] >> shift & kMask) << run * kBits;
        packed[i] = static_cast<std::byte>(bits);
      }
    }
  }
};

// Codes 0, 1 and 2 as digits of a byte in base 3, up to five of them. A byte holds the digits as a fraction, ceil(256 *
// number / 243): multiplying by 3 moves the first digit out of the top.
// As above, the first kRun codes are the first digits of kRun bytes; kDigits is 5 or, in the bytes at the end, 4.
template <uint32_t kDigits, uint32_t kRun>
struct Trits {
  static constexpr uint32_t kCodes = kDigits * kRun;  // in kRun bytes

  static void unpack(const std::byte *packed, uint8_t *codes) {
    for (uint32_t i = 0; i < kRun; ++i) {
      auto fraction = std::to_integer<uint32_t>(packed[i]);
      for (uint32_t digit = 0; digit < kDigits; ++digit) {
        codes[digit * kRun + i] = static_cast<uint8_t>(fraction * 3 >> 8);
        fraction = fraction * 3 & 255;
      }
    }
  }

  static void pack(const uint8_t *codes, std::byte *packed) {
    for (uint32_t i = 0; i < kRun; ++i) {
      uint32_t number = 0;
      for (uint32_t digit = 0; digit < 5; ++digit) {
        number = number * 3 + (digit < kDigits ? codes[digit * kRun + i] : 0);
      }
      packed[i] = static_cast<std::byte>((number * 256 + 242) / 243);
    }
  }
};

}  // namespace bonsai::quant
