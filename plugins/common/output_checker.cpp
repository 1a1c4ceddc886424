#include "plugins/common/output_checker.h"

#include <algorithm>
#include <cmath>

#include "plugins/common/failure.h"

namespace bonsai::plugin {
namespace {

uint64_t seen_words(const OutputBounds &bounds) { return bounds.has_head ? (uint64_t{bounds.vocab} + 63) / 64 : 0; }

void check_ids(const int32_t *ids, uint32_t n, uint32_t vocab, const char *name) {
  if (!ids) reject("output->{} is NULL", name);
  for (uint32_t i = 0; i < n; ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= vocab) {
      reject("output->{}[{}] is {}, expected 0 to {}", name, i, ids[i], vocab - 1);
    }
  }
}

}  // namespace

OutputChecker::OutputChecker(const OutputBounds &bounds) : bounds_(bounds), seen_(seen_words(bounds), "output checks") {
  std::fill_n(seen_.data(), seen_.size(), uint64_t{0});
}

uint64_t OutputChecker::bytes(const OutputBounds &bounds) { return Buffer<uint64_t>::bytes(seen_words(bounds)); }

void OutputChecker::check(const OutputRequest &request) const {
  if (request.n == 0) return;
  if (!bounds_.has_head) reject("n_outputs is {}, expected 0: the session has no head", request.n);
  if (request.n > bounds_.max_outputs) {
    reject("n_outputs is {}, expected at most {}, the session's max_outputs", request.n, bounds_.max_outputs);
  }
  require_pointer(request.outputs, "outputs");
  for (uint32_t i = 0; i < request.n; ++i) check_output(checked(request.outputs[i], "output"), request.n_rows);
}

void OutputChecker::check_output(const bonsai_output &output, uint32_t n_rows) const {
  if (output.token >= n_rows) reject("output->token is {}, expected less than {}", output.token, n_rows);
  if (output.reserved != 0) reject("output->reserved is {}, expected 0", output.reserved);
  switch (output.kind) {
    case BONSAI_OUTPUT_HIDDEN:
      return require_pointer(output.hidden, "output->hidden");
    case BONSAI_OUTPUT_LOGITS:
      require_pointer(output.logits, "output->logits");
      break;
    case BONSAI_OUTPUT_TOP_K:
      check_top(output);
      break;
    case BONSAI_OUTPUT_ARGMAX:
      require_pointer(output.top_ids, "output->top_ids");
      require_pointer(output.top_logits, "output->top_logits");
      break;
    default:
      refuse("output->kind is {}, expected 0 to 3", output.kind);
  }
  check_adjustments(output);
}

void OutputChecker::check_top(const bonsai_output &output) const {
  const uint32_t most = std::min(bounds_.max_k, bounds_.vocab);
  if (output.k == 0 || output.k > most) reject("output->k is {}, expected 1 to {}", output.k, most);
  require_pointer(output.top_ids, "output->top_ids");
  require_pointer(output.top_logits, "output->top_logits");
  if (output.n_ids == 0) return;
  if (output.n_ids > bounds_.vocab) {
    reject("output->n_ids is {}, expected at most {}, the vocabulary", output.n_ids, bounds_.vocab);
  }
  check_ids(output.ids, output.n_ids, bounds_.vocab, "ids");
  require_pointer(output.id_logits, "output->id_logits");
}

void OutputChecker::check_adjustments(const bonsai_output &output) const {
  if (!(output.temperature >= 0) || std::isinf(output.temperature)) {
    reject("output->temperature is {}, expected a finite number from 0", output.temperature);
  }
  if (output.n_adjustments == 0) return;
  check_ids(output.adjust_ids, output.n_adjustments, bounds_.vocab, "adjust_ids");
  require_pointer(output.adjust_add, "output->adjust_add");
  require_pointer(output.adjust_repeat, "output->adjust_repeat");
  check_ids_differ(output);
  for (uint32_t i = 0; i < output.n_adjustments; ++i) {
    const float add = output.adjust_add[i], repeat = output.adjust_repeat[i];
    if (!std::isfinite(add) && !(add < 0)) {
      reject("output->adjust_add[{}] is {}, expected a finite number or -infinity", i, add);
    }
    if (!(repeat > 0) || std::isinf(repeat)) {
      reject("output->adjust_repeat[{}] is {}, expected a finite number above 0", i, repeat);
    }
  }
}

void OutputChecker::check_ids_differ(const bonsai_output &output) const {
  const int32_t *twice = nullptr;
  for (uint32_t i = 0; i < output.n_adjustments; ++i) {
    const uint32_t id = static_cast<uint32_t>(output.adjust_ids[i]);
    const uint64_t bit = uint64_t{1} << (id % 64);
    if (seen_[id / 64] & bit) twice = output.adjust_ids + i;
    seen_[id / 64] |= bit;
  }
  for (uint32_t i = 0; i < output.n_adjustments; ++i) seen_[static_cast<uint32_t>(output.adjust_ids[i]) / 64] = 0;
  if (twice) reject("output->adjust_ids has {} twice", *twice);
}

}  // namespace bonsai::plugin
