#include "host/speculation/ahead.h"

#include <utility>

namespace bonsai::host {

void Ahead::set(std::span<const int32_t> tokens, std::vector<Row> rows) {
  tokens_.assign(tokens.begin(), tokens.end());
  rows_ = std::move(rows);
  next_ = 0;
}

void Ahead::clear() {
  tokens_.clear();
  rows_.clear();
  next_ = 0;
}

Row Ahead::take() { return std::move(rows_[next_++]); }

}  // namespace bonsai::host
