// Engines for C, and what they say without a session of the caller's.
#include <bonsai/bonsai.h>
#include <bonsai/engine.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/utf8.h"
#include "host/c_api/arguments.h"
#include "host/c_api/generation.h"
#include "host/c_api/handles.h"
#include "host/c_api/options.h"
#include "host/c_api/outcome.h"

namespace bonsai::c_api {

static_assert(BONSAI_POOLING_MEAN == static_cast<int>(Pooling::kMean));
static_assert(BONSAI_POOLING_LAST == static_cast<int>(Pooling::kLast));
static_assert(BONSAI_POOLING_MODEL == static_cast<int>(Pooling::kModel));

namespace {

// Where the text of ids goes.
struct TextArray {
  char *text;
  uint64_t capacity;
  uint64_t *n;
};

void detokenize(const bonsai_engine *engine, const int32_t *tokens, uint64_t n_tokens, bool show_special,
                const TextArray &to) {
  const Engine &known = *required(engine, "engine").engine;
  const std::string made = known.detokenize(array_of(tokens, n_tokens, "tokens"), show_special);
  hand_out<char>(made, to.text, to.capacity, to.n);
}

}  // namespace

}  // namespace bonsai::c_api

using namespace bonsai;
using namespace bonsai::c_api;

const char *bonsai_version(void) { return BONSAI_VERSION; }

bonsai_outcome bonsai_engine_options_init(bonsai_engine_options *options, uint64_t struct_size) {
  return fill(options, struct_size, bonsai_engine_options{});
}

bonsai_outcome bonsai_engine_load(const bonsai_engine_options *options, bonsai_engine **engine,
                                  bonsai_failure *failure) {
  return guarded(failure, [&] {
    required(engine, "engine") = nullptr;
    const EngineOptions read = engine_options(required(options, "options"));
    *engine = new bonsai_engine{std::make_shared<const Engine>(Engine::load(read))};
  });
}

void bonsai_engine_free(bonsai_engine *engine) { delete engine; }

bonsai_outcome bonsai_engine_describe(const bonsai_engine *engine, bonsai_engine_info *info, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    const uint32_t size = size_of(info);
    const ModelInfo model = known.model();
    const BackendInfo backend = known.backend();
    const MemoryInfo memory = known.memory();
    bonsai_engine_info made{};
    made.struct_size = size;
    made.vocabulary = model.vocabulary;
    made.trained_context = model.trained_context;
    made.context = model.context;
    made.embedding = model.embedding;
    made.threads = backend.threads;
    made.weight_bytes = memory.weight_bytes;
    made.mapped_bytes = memory.mapped_bytes;
    made.session_bytes = memory.session_bytes;
    copy_text(printable(model.name), made.model, sizeof made.model);
    copy_text(backend.name, made.backend, sizeof made.backend);
    copy_text(backend.device, made.device, sizeof made.device);
    fill_known(*info, made);
  });
}

bonsai_outcome bonsai_engine_tokenize(const bonsai_engine *engine, const char *text, uint64_t n_bytes,
                                      uint32_t parse_special, int32_t *tokens, uint64_t capacity, uint64_t *n,
                                      bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    const std::vector<int32_t> ids = known.tokenize(text_of(text, n_bytes, "text"), parse_special != 0);
    hand_out<int32_t>(ids, tokens, capacity, n);
  });
}

bonsai_outcome bonsai_engine_tokenize_prompt(const bonsai_engine *engine, const char *text, uint64_t n_bytes,
                                             int32_t *tokens, uint64_t capacity, uint64_t *n, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    const std::vector<int32_t> ids = known.tokenize_prompt(text_of(text, n_bytes, "text"));
    hand_out<int32_t>(ids, tokens, capacity, n);
  });
}

bonsai_outcome bonsai_engine_ends_text(const bonsai_engine *engine, int32_t token, uint32_t *ends,
                                       bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    required(ends, "ends") = known.ends_text(token) ? 1 : 0;
  });
}

bonsai_outcome bonsai_engine_detokenize(const bonsai_engine *engine, const int32_t *tokens, uint64_t n_tokens,
                                        char *text, uint64_t capacity, uint64_t *n, bonsai_failure *failure) {
  return guarded(failure, [&] { detokenize(engine, tokens, n_tokens, false, {text, capacity, n}); });
}

bonsai_outcome bonsai_engine_spell_out(const bonsai_engine *engine, const int32_t *tokens, uint64_t n_tokens,
                                       char *text, uint64_t capacity, uint64_t *n, bonsai_failure *failure) {
  return guarded(failure, [&] { detokenize(engine, tokens, n_tokens, true, {text, capacity, n}); });
}

bonsai_outcome bonsai_engine_embed(const bonsai_engine *engine, const char *text, uint64_t n_bytes,
                                   bonsai_pooling pooling, float *vector, uint64_t capacity, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    if (pooling > BONSAI_POOLING_MODEL)
      refuse("pooling: expected 0 (mean), 1 (last) or 2 (the model's), found " + std::to_string(pooling));
    float &first = required(vector, "vector");
    check_capacity(capacity, known.model().embedding);
    const EmbeddingOptions options = {.pooling = static_cast<Pooling>(pooling)};
    std::ranges::copy(known.embed(text_of(text, n_bytes, "text"), options), &first);
  });
}

bonsai_stop *bonsai_stop_new(void) {
  bonsai_stop *stop = nullptr;
  guarded(nullptr, [&stop] { stop = new bonsai_stop; });
  return stop;
}

void bonsai_stop_request(bonsai_stop *stop) {
  if (stop != nullptr) stop->source.request_stop();
}

void bonsai_stop_free(bonsai_stop *stop) { delete stop; }

bonsai_outcome bonsai_generate_options_init(bonsai_generate_options *options, uint64_t struct_size,
                                            const char *preset) {
  const auto sampling = sampling_preset(preset == nullptr ? "balanced" : preset);
  if (!sampling) return BONSAI_BAD_ARGUMENT;
  return fill(options, struct_size, raw_defaults(*sampling));
}

bonsai_outcome bonsai_engine_generate_options(const bonsai_engine *engine, bonsai_generate_options *options,
                                              uint64_t struct_size, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const SamplingOptions sampling = required(engine, "engine").engine->model().sampling;
    if (fill(options, struct_size, raw_defaults(sampling)) != BONSAI_SUCCESS)
      refuse("options: expected a struct and its size");
  });
}

void bonsai_generation_free(const bonsai_generation *generation) { end(generation); }

bonsai_outcome bonsai_engine_generate(const bonsai_engine *engine, const char *prompt, uint64_t n_bytes,
                                      const bonsai_generate_options *options, bonsai_text_fn receive, void *context,
                                      const bonsai_generation **generation, bonsai_failure *failure) {
  return generate_text(failure, {receive, context, generation}, [&](const TextCallback &callback) {
    const Engine &known = *required(engine, "engine").engine;
    return known.generate(text_of(prompt, n_bytes, "prompt"), generate_options(options), callback);
  });
}
