// AbreastLookup where groups of columns are looked up in turn (kernels/abreast_in_turn.inl.h).
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "plugins/cpu/simd/avx512/vector.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

struct AbreastLookupInTurn : AbreastLookup {
  static constexpr bool kInTurn = true;
  static constexpr uint32_t kRows = 1024, kFewestVectors = 25;
  using CodeRecords = NoRecords;  // panels are as fast

  // Which GCC 12 would load again for each use.
  static I16x32 load_once(const int16_t *from) {
    I16x32 a = load(from);
#ifdef __AVX512F__  // and not emulated
    asm("" : "+v"(a.v));
#endif
    return a;
  }

  // Lines of 8 words of 64 bits. While one is in registers, two words at a time, the next is on its way.
  class WordsAhead {
   public:
    uint64_t words[2];

    [[gnu::always_inline]] explicit WordsAhead(const uint8_t *line) {
      load(line);
      split();
      take(0);
    }

    [[gnu::always_inline]] void load(const uint8_t *line) { next_ = load_bytes(line).v; }

    // Not word by word from memory: loads are what is scarce.
    [[gnu::always_inline]] void split() {
      quarters_[0] = _mm512_castsi512_si128(next_);
      quarters_[1] = _mm512_extracti32x4_epi32(next_, 1);
      quarters_[2] = _mm512_extracti32x4_epi32(next_, 2);
      quarters_[3] = _mm512_extracti32x4_epi32(next_, 3);
#ifdef __AVX512F__  // and not emulated
      asm("" : "+v"(quarters_[0]), "+v"(quarters_[1]), "+v"(quarters_[2]), "+v"(quarters_[3]));
#endif
    }

    [[gnu::always_inline]] void take(uint32_t quarter) {
      words[0] = static_cast<uint64_t>(_mm_cvtsi128_si64(quarters_[quarter]));
      words[1] = static_cast<uint64_t>(_mm_extract_epi64(quarters_[quarter], 1));
    }

   private:
    __m512i next_;
    __m128i quarters_[4];
  };
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
