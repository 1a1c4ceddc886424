// The checks of what a call asks for, all of them before anything is computed.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>

#include "plugins/common/buffer.h"

namespace bonsai::plugin {

// The outputs of a call.
struct OutputRequest {
  const bonsai_output *const *outputs;  // (n)
  uint32_t n;
  uint32_t n_rows;  // rows that an output may ask for
};

// What a session allows.
struct OutputBounds {
  uint32_t vocab;
  uint32_t max_outputs;
  uint32_t max_k;
  bool has_head;
};

// Checks kinds, pointers, ids and adjustments; the scratch is sized once.
class OutputChecker {
 public:
  explicit OutputChecker(const OutputBounds &bounds);
  static uint64_t bytes(const OutputBounds &bounds);
  uint64_t bytes() const { return seen_.bytes(); }

  // Throws BONSAI_INVALID_ARGUMENT or BONSAI_UNSUPPORTED with the first thing that is wrong.
  void check(const OutputRequest &request) const;

 private:
  void check_output(const bonsai_output &output, uint32_t n_rows) const;
  void check_top(const bonsai_output &output) const;
  void check_adjustments(const bonsai_output &output) const;
  void check_ids_differ(const bonsai_output &output) const;

  OutputBounds bounds_;
  Buffer<uint64_t> seen_;  // (vocab) bits: ids that were met while checking, none between calls
};

}  // namespace bonsai::plugin
