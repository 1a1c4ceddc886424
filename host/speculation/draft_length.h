// How many tokens are worth proposing: none where they are seldom accepted, many where they nearly always are.
#pragma once

#include <array>
#include <cstdint>

#include "host/speculation/drafter.h"
#include "host/speculation/pass_costs.h"

namespace bonsai::host {

// Chooses the length k that gives most tokens for the time: where a token is accepted with probability a, a pass over
// k + 1 tokens yields 1 + a + ... + a^k of them (arXiv:2211.17192, equation 1). Passes have 2, 4, 8 or 16 tokens, the
// sizes that kernels are made for, so that few have to be tried. The text does not depend on any of it.
class DraftLength {
 public:
  static constexpr uint32_t kMost = PassCosts::kMostTokens - 1;

  DraftLength();

  // At most `most` tokens. `draft_ratio`: what proposing one token takes, in passes of the model over a single token.
  uint32_t choose(Drafter::Evidence evidence, uint32_t most, const PassCosts &costs, double draft_ratio) const;

  // One more token that was proposed on this evidence: whether the text went on with it.
  void saw(Drafter::Evidence evidence, bool accepted);

  // The share of tokens that is expected to be accepted, where all before them are.
  double acceptance(Drafter::Evidence evidence) const;

 private:
  struct Counts {
    double accepted = 0, all = 0;
  };
  std::array<Counts, Drafter::kEvidences> counts_;  // recent tokens weigh more
};

}  // namespace bonsai::host
