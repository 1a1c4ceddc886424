// A session over an uploaded model, whose batches run as whole forward passes or layer by layer.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "tools/plugin-check/batch.h"
#include "tools/plugin-check/context.h"
#include "tools/plugin-check/read_once.h"
#include "tools/plugin-check/uploaded_model.h"

namespace bonsai::check {

// For batches of up to 512 tokens and as many outputs, 8 sequences of up to so many positions, in blocks of this size;
// 0: of the first that the backend lists.
bonsai_session_config usual_config(Context &context, bonsai_kv_dtype kv_dtype, uint32_t block_size = 0,
                                   uint32_t positions = 1024);

// Blocks that hold this many positions.
uint32_t blocks_for(uint32_t positions, uint32_t block_size);

// What its calls may read while they last, they get in copies that are spoiled as soon as they have returned.
class Session {
 public:
  // The model must outlive it. Throws Failed when the session cannot be made, Skipped where the backend does not serve
  // such a model.
  Session(UploadedModel &model, const bonsai_session_config &config, Path path);
  // The same as another specification has it, which is handed over as it is.
  Session(UploadedModel &model, const bonsai_session_config &config, Path path, const bonsai_model_spec &spec);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  // Runs a batch of tokens by the session's path and waits for it. Where the session has no embedding, or runs layer by
  // layer, the tokens' rows are decoded here. Throws Failed on failure.
  void run(Batch &batch, const Outputs &outputs);
  // One layer of a batch, as layer_encode has it.
  void encode(uint32_t layer, const bonsai_batch &batch, const float *in, float *out);
  // The halves of run() on a session of Path::kForward that has the embedding; outputs live until the wait ends.
  uint64_t submit(Batch &batch, const Outputs &outputs);
  void wait(uint64_t ticket);
  // The logits of every token of one sequence at positions from `start`, over `blocks`, in one batch.
  std::vector<std::vector<float>> logits(std::span<const int32_t> tokens, uint32_t start,
                                         const std::vector<uint32_t> &blocks);

  UploadedModel &model;
  const bonsai_session_config config;
  const bonsai_backend_api &api;
  bonsai_session *handle = nullptr;

 private:
  uint64_t submit(const bonsai_batch &batch, const Outputs &outputs);
  BatchReadOnce &hand_over(const bonsai_batch &batch, const bonsai_output *const *outputs, uint32_t n_outputs);
  void run_layers(const bonsai_batch &batch, const std::vector<float> &states, const Outputs &outputs);

  const Path path_;
  std::optional<ModelReadOnce> given_model_;
  std::deque<BatchReadOnce> given_;  // the last few
};

// The rows of the model's embedding for these tokens, (n_tokens, hidden).
std::vector<float> embed(const model::Model &model, std::span<const int32_t> tokens);

}  // namespace bonsai::check
