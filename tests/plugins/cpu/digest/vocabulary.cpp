#include "tests/plugins/cpu/digest/vocabulary.h"

#include <cassert>
#include <string_view>

#include "tests/plugins/cpu/digest/digest.h"

namespace bonsai::cpu::digest {
namespace {

Vocabulary vocabulary_of(std::string_view tier) {
#if defined(__x86_64__)
  if (tier == "avx2") return avx2_vocabulary;
  if (tier == "avx2-vnni") return avx2_vnni_vocabulary;
  if (tier == "avx512" || tier == "avx512-panels" || tier == "avx512-panels32" || tier == "avx512-amx")
    return avx512_vocabulary;
#elif defined(__aarch64__)
  if (tier == "neon") return neon_vocabulary;
#endif
  assert(tier == "portable");
  return portable_vocabulary;
}

// Any bits, or floats that are near each other or special.
std::vector<uint32_t> make_operands() {
  Random random(5);
  std::vector<uint32_t> operands(kVocabularyOperands);
  for (uint32_t &operand : operands) {
    const uint32_t kind = random.bits() % 4;
    if (kind == 0) operand = std::bit_cast<uint32_t>(kSpecial[random.bits() % std::size(kSpecial)]);
    if (kind == 1) operand = std::bit_cast<uint32_t>(random.value(static_cast<int>(random.bits() % 40)));
    if (kind >= 2) operand = random.bits();
  }
  return operands;
}

Results run_vocabulary(const KernelTable &kernels, quant::Format) {
  Results results;
  const Vocabulary vocabulary = vocabulary_of(kernels.name);
  const std::vector<uint32_t> operands = make_operands();
  std::vector<uint32_t> words(kVocabularyResults);
  for (size_t round = 0; round < kVocabularyRounds; ++round) {
    const size_t n = vocabulary(operands.data() + 16 * round, words.data());
    for (const uint32_t word : std::span(words).first(n)) results.add(word);
  }
  return results;
}

}  // namespace

std::vector<Section> vocabulary_sections() { return {{"vocabulary", run_vocabulary}}; }

}  // namespace bonsai::cpu::digest
