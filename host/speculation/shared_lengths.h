// How many tokens each of several texts guesses in a pass that they share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "host/speculation/pass_costs.h"

namespace bonsai::host {

struct TextChance {
  double acceptance = 0;  // of each guessed token, where all those before it are right
  uint32_t most = 0;      // tokens that it may guess
};

// Lengths (texts) for a pass that has one token of each text beside them, and `most` guesses in all. As in DraftLength,
// a text with k guesses is expected to go on by 1 + a + ... + a^k tokens, and passes have 2, 4, 8 or 16 tokens.
//
// Every text of the pass waits for the guesses of the others. So it is not the sum of the speeds that is made largest,
// which may rest on one of them, but their product (proportional fairness: Kelly, 1998), and nobody's speed may fall
// below four fifths of what it is without guesses. All lengths are 0 where that gains little or nothing.
std::vector<uint32_t> choose_shared_lengths(std::span<const TextChance> texts, uint32_t most, const PassCosts &costs);

}  // namespace bonsai::host
