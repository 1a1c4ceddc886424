// The end of a forward pass: output norm, head, and what the caller asked for of each row.
#pragma once

#include <bonsai/backend.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "plugins/common/buffer.h"
#include "plugins/common/output_checker.h"
#include "plugins/common/profile.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/model.h"
#include "plugins/cpu/selection.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

using namespace plugin;

struct OutputLimits {
  uint32_t max_outputs;
  uint32_t max_k;
  int threads;
};

class OutputStage {
 public:
  // Rows whose logits are computed at a time; the scratch does not grow with the outputs beyond them.
  static constexpr uint32_t kRows = 32;

  OutputStage(const ModelShape &shape, const OutputLimits &limits);
  static uint64_t bytes(const ModelShape &shape, const OutputLimits &limits);
  uint64_t bytes() const {
    return normed_.bytes() + logits_.bytes() + states_.bytes() + ranks_.bytes() + sums_.bytes() + checker_.bytes();
  }

  // Throws BONSAI_UNSUPPORTED if the model's head lies in too many parts.
  void check_head(const Model &model) const;

  using Request = OutputRequest;
  // Throws BONSAI_INVALID_ARGUMENT or BONSAI_UNSUPPORTED with the first thing that is wrong.
  void check(const Request &request) const { checker_.check(request); }

  // How often a request's rows of logits make run() read the head.
  static uint64_t passes(const Request &request);

  struct Inputs {
    const Model *model;
    const float *x;                 // (n_rows, hidden), before the output norm
    ActivationScratch activations;  // for kRows vectors of `hidden` columns
    int32_t *selected;  // (n) written: the token that an output selects, -1 where its kind does not; may be NULL
    Profile *profile;
  };
  void run(Threads &threads, const KernelTable &kernels, const Request &request, const Inputs &inputs) const;

 private:
  // The outputs whose logits are computed together.
  struct Group {
    std::array<uint32_t, kRows> outputs;
    uint32_t n = 0;
  };
  // What a worker has found so far of one row.
  struct RowState {
    LargestLogit largest;
    TopLogits top;
    float below = -std::numeric_limits<float>::infinity();  // logits up to it are no use: others have found enough
  };
  class Sink;

  void run_group(Threads &threads, const KernelTable &kernels, const Request &request, const Inputs &inputs,
                 const Group &group) const;
  int32_t finish(const KernelTable &kernels, const bonsai_output &output, uint32_t row, uint64_t n_pieces) const;
  RowState &state(int worker, uint32_t row) const;
  std::span<uint64_t> ranks(int worker, uint32_t row, uint32_t k) const;

  ModelShape shape_;
  OutputLimits limits_;
  Buffer<float> normed_;     // (rows, hidden)
  Buffer<float> logits_;     // (threads, piece_elements(rows))
  Buffer<RowState> states_;  // (threads, rows)
  Buffer<uint64_t> ranks_;   // (threads, rows, max_k)
  Buffer<ExpSum> sums_;      // (rows, pieces of the head)
  OutputChecker checker_;
};

}  // namespace bonsai::cpu
