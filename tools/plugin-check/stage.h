// A random model on a check's device with a session over it, its judge, and KV blocks in no particular order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/plugin-check/judge.h"
#include "tools/plugin-check/random.h"
#include "tools/plugin-check/random_model.h"
#include "tools/plugin-check/session.h"

namespace bonsai::check {

struct StageOptions {
  std::optional<Path> path = {};           // the best that is offered
  std::optional<bonsai_kv_dtype> kv = {};  // the plainest that is offered
  uint32_t block_size = 0;                 // 0: the first that the backend lists
  uint32_t max_k = 64;
  Placement placement = {};
};

// Skips the check where the backend does not offer the path or a dtype, or does not serve the shape.
class Stage {
 public:
  Stage(Context &context, const ModelShape &shape, const StageOptions &options = {});

  // Blocks for this many positions. What was handed out is not handed out again until recycle_blocks.
  std::vector<uint32_t> take_blocks(uint32_t positions);
  void recycle_blocks();

  Logits judge(std::span<const int32_t> tokens) const;
  std::vector<int32_t> tokens(uint32_t n, uint64_t seed = 1) const;
  Outputs outputs() const { return {config().vocab, config().hidden}; }
  const model::Config &config() const { return random.config(); }

  Context &context;
  const RandomModel random;
  const bonsai_kv_dtype kv;
  const Path path;
  const double bound;  // on the relative error of logits
  UploadedModel uploaded;
  Session session;

 private:
  Random order_{99};
  std::vector<uint32_t> free_blocks_;
};

}  // namespace bonsai::check
