#include "host/speculation/ahead.h"

#include <utility>

namespace bonsai::host {

void Ahead::set(std::span<const int32_t> tokens, std::vector<std::vector<float>> logits) {
  tokens_.assign(tokens.begin(), tokens.end());
  logits_ = std::move(logits);
  next_ = 0;
}

void Ahead::clear() {
  tokens_.clear();
  logits_.clear();
  next_ = 0;
}

std::vector<float> Ahead::take() { return std::move(logits_[next_++]); }

}  // namespace bonsai::host
