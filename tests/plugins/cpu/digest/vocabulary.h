// Every operation of a tier's vocabulary (simd/portable/vector.h), also on operands that no kernel gives it.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace bonsai::cpu::digest {

// Vectors of 16 words that the operations take as floats, integers or bytes; two more than rounds.
constexpr size_t kVocabularyRounds = 1000;
constexpr size_t kVocabularyOperands = (kVocabularyRounds + 2) * 16;
constexpr size_t kVocabularyResults = 4096;  // words of a round, at most

// Writes the results of round `round`, and says how many words they are. Plain pointers: nothing of the standard
// library may be compiled for a tier, lest the linker take it for other machines as well.
using Vocabulary = size_t (*)(const uint32_t *operands, uint32_t *results);

size_t portable_vocabulary(const uint32_t *operands, uint32_t *results);
#if defined(__x86_64__)
size_t avx2_vocabulary(const uint32_t *operands, uint32_t *results);
size_t avx2_vnni_vocabulary(const uint32_t *operands, uint32_t *results);
size_t avx512_vocabulary(const uint32_t *operands, uint32_t *results);
#elif defined(__aarch64__)
size_t neon_vocabulary(const uint32_t *operands, uint32_t *results);
#endif

}  // namespace bonsai::cpu::digest
