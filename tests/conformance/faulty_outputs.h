// What a fault makes of a batch's outputs.
#pragma once

#include <bonsai/backend.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "tests/conformance/faulty.h"
#include "tests/conformance/number_faults.h"

namespace bonsai::test {

class FaultyOutputs {
 public:
  FaultyOutputs(const Session &session, const bonsai_output *const *outputs, uint32_t n)
      : session_(session), given_(outputs), n_(n) {
    if (!outputs) return;
    for (uint32_t i = 0; i < n; ++i) {
      if (!outputs[i] || outputs[i]->struct_size < sizeof *outputs[i]) return;  // the CPU backend will refuse it
    }
    changed_.assign(n, {});
    for (uint32_t i = 0; i < n; ++i) change(*outputs[i], changed_[i]);
    for (const bonsai_output &output : changed_) pointers_.push_back(&output);
  }

  const bonsai_output *const *data() const { return pointers_.empty() ? given_ : pointers_.data(); }

  void finish() {
    for (uint32_t i = 0; i < n_; ++i) finish(*given_[i]);
    for (const auto &[output, logits] : ties_) select_last(*output, *logits);
  }

 private:
  void change(const bonsai_output &given, bonsai_output &output) {
    output = given;
    if (session_.is("takes any number of ids")) output.n_ids = std::min(given.n_ids, session_.vocab);
    if (session_.is("ignores the temperature")) output.temperature = 0;
    if (session_.is("ignores the mask")) output.mask = nullptr;
    if (session_.is("ignores adjustments")) output.n_adjustments = 0;
    if (session_.is("adds finite numbers only") && given.n_adjustments > 0) {
      std::vector<float> &adds = adds_.emplace_back(given.adjust_add, given.adjust_add + given.n_adjustments);
      for (float &add : adds) add = std::max(add, -100.0f);
      output.adjust_add = adds.data();
    }
    if (session_.is("forgets a row") && given.kind == BONSAI_OUTPUT_LOGITS && given.token == 2) {
      output.logits = adds_.emplace_back(session_.vocab).data();
    }
    if (session_.is("takes ties by the highest id") && given.kind == BONSAI_OUTPUT_ARGMAX && given.top_ids) {
      auto &logits = ties_.emplace_back(&given, std::make_unique<std::vector<float>>(session_.vocab)).second;
      output.kind = BONSAI_OUTPUT_LOGITS;
      output.logits = logits->data();
    }
  }

  void finish(const bonsai_output &output) const {
    if (session_.is("has one wrong logit") && output.kind == BONSAI_OUTPUT_LOGITS) output.logits[3] += 0.01f;
    if (session_.rotation != nullptr && output.kind == BONSAI_OUTPUT_LOGITS) output.logits[0] *= *session_.rotation;
    if (session_.is("rounds logits as its caller does") && output.kind == BONSAI_OUTPUT_LOGITS) {
      const std::vector<float> rounded = rounded_vectors(output.logits, session_.vocab);
      std::copy(rounded.begin(), rounded.end(), output.logits);
    }
    if (session_.is("forgets the log-sum-exp") && output.log_sum_exp) *output.log_sum_exp = 0;
    if (session_.is("selects nothing among NaN") && output.top_logits && std::isnan(output.top_logits[0])) {
      output.top_ids[0] = -1;
    }
    if (session_.is("wants a log-sum-exp") && output.kind == BONSAI_OUTPUT_TOP_K && !output.log_sum_exp &&
        output.n_ids) {
      output.id_logits[0] = 0;
    }
    if (session_.is("does not sort the top") && output.kind == BONSAI_OUTPUT_TOP_K && output.k > 1) {
      std::swap(output.top_ids[0], output.top_ids[1]);
      std::swap(output.top_logits[0], output.top_logits[1]);
    }
    if (session_.is("misses one of the top") && output.kind == BONSAI_OUTPUT_TOP_K && output.k > 2) {
      output.top_ids[1] = output.top_ids[0];
      output.top_logits[1] = output.top_logits[0];
    }
  }

  static void select_last(const bonsai_output &output, const std::vector<float> &logits) {
    const auto last = std::max_element(logits.rbegin(), logits.rend());
    output.top_ids[0] = static_cast<int32_t>(logits.rend() - last - 1);
    output.top_logits[0] = *last;
  }

  const Session &session_;
  const bonsai_output *const *given_;
  uint32_t n_;
  std::vector<bonsai_output> changed_;
  std::vector<const bonsai_output *> pointers_;
  std::deque<std::vector<float>> adds_;
  std::vector<std::pair<const bonsai_output *, std::unique_ptr<std::vector<float>>>> ties_;
};

}  // namespace bonsai::test
