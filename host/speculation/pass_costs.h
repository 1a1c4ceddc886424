// How long a pass of the model takes, by the number of tokens in it.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace bonsai::host {

// Learned from the passes of one model on one device: how much longer than a single token's they take, or as long as no
// such pass was made than it would, if the size that was made takes what is hoped for. Sizes that were not tried are
// taken to be cheap, so that they are tried where much is accepted; what was measured fades towards that again, so that
// a bad moment is not held against a size for ever. Every method may be called from any thread.
class PassCosts {
 public:
  static constexpr uint32_t kMostTokens = 16;

  // A pass over `n_tokens` (1..) took so long; sizes beyond kMostTokens are not learned.
  void add(uint32_t n_tokens, double seconds);

  // What a pass over one token takes; 0 until any was measured.
  double single() const;

  // How many times longer a pass over `n_tokens` (1..kMostTokens) takes than one over a single token.
  double ratio(uint32_t n_tokens) const;

 private:
  static double hoped_for(uint32_t n_tokens);

  mutable std::mutex mutex_;
  double single_ = 0;
  std::array<double, kMostTokens + 1> ratios_{};  // 0: not measured
};

}  // namespace bonsai::host
