// Decides before each pass of the model what it verifies beside the token that is due, and learns from what comes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "host/speculation/draft_length.h"
#include "host/speculation/drafter.h"
#include "host/speculation/pass_costs.h"

namespace bonsai::host {

struct SpeculationCounts {
  uint32_t proposed = 0;  // tokens that passes verified
  uint32_t accepted = 0;  // of these, what the text went on with
};

class Speculator {
 public:
  // The first drafter whose proposal is expected to pay is taken, each time. `vocabulary`: ids lie below it.
  Speculator(std::vector<std::unique_ptr<Drafter>> drafters, uint32_t vocabulary);

  void begin(std::span<const int32_t> text);

  // What a pass over the text's last token shall verify with it: at most `most` tokens, often none. Valid until the
  // next call. Throws EngineError: what a drafter threw; an id outside the vocabulary.
  std::span<const int32_t> propose(uint32_t most, const PassCosts &costs);

  // propose() in two halves, for whoever has a pass that several texts share. First how likely each token that the
  // first drafter would propose is right, where those before it are; nullopt: it has none to propose. Then as many of
  // these as were decided on: with 0 they are only compared with what comes, and so are they until a pass has verified
  // them. Preconditions: that drafter is free; chance() has just returned a value.
  std::optional<double> chance();
  std::span<const int32_t> propose_so_many(uint32_t length);

  // The pass has verified the first `n` of these: it may not have had place for all, or may have failed.
  void verified(uint32_t n);

  // The text goes on with this token.
  void came(int32_t token);

  const SpeculationCounts &counts() const { return counts_; }

 private:
  // A drafter, and what it proposed last. What no pass verifies of a trial is only compared with what comes: that costs
  // nothing and shows when proposals begin to pay.
  struct Source {
    std::unique_ptr<Drafter> drafter;
    DraftLength length = {};
    std::vector<int32_t> trial = {};
    size_t n_seen = 0;  // of the trial's tokens
    Drafter::Evidence evidence = {};
    size_t n_verified = 0;         // the first so many of them
    double seconds_per_token = 0;  // to propose one; 0: not known, or free
    uint32_t n_silent = 0;         // passes since it last proposed
    uint32_t patience = 0;         // passes after which it may try again though it seems not to pay
  };

  uint32_t choose_length(Source &source, Drafter::Evidence evidence, uint32_t most, const PassCosts &costs) const;
  std::span<const int32_t> offer(Source &source, Drafter::Evidence evidence, uint32_t length);
  void draft(Source &source, uint32_t most);
  void count_verified(Source &source, size_t n);
  static void learn_time(Source &source, double seconds);
  void compare(Source &source, int32_t token);

  std::vector<Source> sources_;
  const uint32_t vocabulary_;
  Drafter::Evidence evidence_ = {};  // that chance() spoke of
  SpeculationCounts counts_;
};

}  // namespace bonsai::host
