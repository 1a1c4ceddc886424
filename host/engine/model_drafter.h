// Proposes what another, smaller model would go on with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "host/engine/continuation.h"
#include "host/engine/session_state.h"
#include "host/speculation/drafter.h"

namespace bonsai::host {

// Throws EngineError unless the ids of both mean the same: one line that names the first difference.
void check_same_vocabulary(const EngineState &target, const EngineState &draft);

// Its session follows the text only when a proposal is due. It chooses under the text's own options, with the random
// numbers that the text's choices will use.
class ModelDrafter final : public Drafter {
 public:
  // `text`: the session that drafts are for. All of them outlive this.
  ModelDrafter(const SessionState &text, SessionState &draft, Continuation &continuation, const std::stop_token &cancel)
      : text_(text), draft_(draft), continuation_(continuation), cancel_(cancel) {}

  // Computes the text, but for what the session holds already.
  void begin(std::span<const int32_t> text) override;
  void append(int32_t) override {}
  // None once the draft model's context is full.
  std::optional<Evidence> evidence() override;
  // Fewer where the draft model would end the text; none when cancelled.
  void propose(uint32_t most, std::vector<int32_t> &tokens) override;
  bool is_free() const override { return false; }

 private:
  void catch_up(std::span<const int32_t> text);
  void draft(uint32_t most, std::vector<int32_t> &tokens);

  const SessionState &text_;
  SessionState &draft_;
  Continuation &continuation_;
  const std::stop_token &cancel_;
  size_t n_same_ = 0;  // leading tokens that both sessions are known to share
};

}  // namespace bonsai::host
