#include "tools/plugin-check/stage.h"

#include <algorithm>
#include <numeric>

namespace bonsai::check {
namespace {

Placement placement_of(Context &context, const ModelShape &shape, Path path, Placement placement) {
  context.need(path);
  const auto named = shape.formats.find("token_embd");
  const quant::Format embedding = named == shape.formats.end() ? shape.format : named->second;
  // Layer by layer nothing is looked up: a session has the embedding all the same where one weight is both.
  if ((path == Path::kLayers && !shape.tied) || !context.looks_up(embedding)) placement.embedding = false;
  return placement;
}

double bound_of(const RandomModel &random, bonsai_kv_dtype kv) {
  const model::Model &model = random.model();
  double bound = kv == BONSAI_KV_Q8_0 ? kCacheBound : kFloatBound;
  bound = std::max(bound, error_bound(model.head->format));
  for (const model::LayerWeights &layer : model.layers) {
    for (const gguf::Tensor *matrix :
         {layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_output, layer.ffn_gate, layer.ffn_up, layer.ffn_down}) {
      bound = std::max(bound, error_bound(matrix->format));
    }
  }
  return bound;
}

bonsai_session_config config_of(Context &context, bonsai_kv_dtype kv, const StageOptions &options) {
  skip_unless(context.stores(kv), "KV dtype {} is not offered", kv_name(kv));
  bonsai_session_config config = usual_config(context, kv, options.block_size, options.placement.positions);
  config.max_k = options.max_k;
  return config;
}

}  // namespace

Stage::Stage(Context &context, const ModelShape &shape, const StageOptions &options)
    : context(context),
      random(shape),
      kv(options.kv ? *options.kv : (context.need_sessions(), context.plainest_kv())),
      path(options.path ? *options.path : context.best_path()),
      bound(bound_of(random, kv)),
      uploaded(context.device(), random.model(), placement_of(context, shape, path, options.placement)),
      session(uploaded, config_of(context, kv, options), path) {
  recycle_blocks();
}

std::vector<uint32_t> Stage::take_blocks(uint32_t positions) {
  const uint32_t n = blocks_for(positions, session.config.block_size);
  expect(n <= free_blocks_.size(), "the suite asks for {} blocks of {} that are left", n, free_blocks_.size());
  const std::vector<uint32_t> taken(free_blocks_.end() - n, free_blocks_.end());
  free_blocks_.resize(free_blocks_.size() - n);
  return taken;
}

void Stage::recycle_blocks() {
  free_blocks_.resize(session.config.n_blocks);
  std::iota(free_blocks_.begin(), free_blocks_.end(), 0u);
  order_.shuffle(free_blocks_);
}

Logits Stage::judge(std::span<const int32_t> tokens) const { return check::judge(random.model(), kv, tokens); }

std::vector<int32_t> Stage::tokens(uint32_t n, uint64_t seed) const { return random_tokens(n, config().vocab, seed); }

}  // namespace bonsai::check
