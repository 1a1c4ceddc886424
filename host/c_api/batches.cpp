// Many texts at once, for C.
#include <bonsai/batch_engine.h>
#include <bonsai/bonsai.h>
#include <bonsai/chat_format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/c_api/arguments.h"
#include "host/c_api/generation.h"
#include "host/c_api/handles.h"
#include "host/c_api/options.h"
#include "host/c_api/outcome.h"
#include "host/engine/reused_tokens.h"

namespace bonsai::c_api {
namespace {

// Who started a text.
struct Listener {
  bonsai_text_fn receive;
  bonsai_done_fn done;
  void *context;
};

// What `make` makes of a text that has ended goes to whoever started it.
template <class Make>
void tell(const Listener &listener, const std::exception_ptr &error, Make make) noexcept {
  const bonsai_generation *made = nullptr;
  bonsai_failure failure{};
  failure.struct_size = sizeof failure;
  guarded(&failure, [&] {
    if (error) std::rethrow_exception(error);
    made = make();
  });
  listener.done(listener.context, made, made == nullptr ? &failure : nullptr);
}

void start(bonsai_batch_engine &batch, std::span<const int32_t> tokens, const bonsai_generate_options *options,
           const Listener &listener) {
  if (listener.done == nullptr) refuse("done: expected one, found NULL");
  batch.batch.start_tokens(
      tokens, generate_options(options),
      [listener](std::string_view text) {
        return pass_on(listener.receive, listener.context, BONSAI_PIECE_TEXT, text);
      },
      [listener](Generation generation, const std::exception_ptr &error) {
        tell(listener, error, [&] { return hand_over(std::move(generation)); });
      },
      priority(options));
}

void start_chat(bonsai_batch_engine &batch, std::span<const ChatMessage> messages, const ChatOptions &chat,
                const bonsai_generate_options *options, const Listener &listener) {
  if (listener.done == nullptr) refuse("done: expected one, found NULL");
  const GenerateOptions wanted = generate_options(options);
  const ChatFormat &format = batch.format.of(*batch.engine);
  const ChatPrompt prompt = format.end_reasoning(format.prompt(messages, chat), wanted);
  const auto answer = std::make_shared<ChatAnswer>(prompt, [listener](ChatPiece kind, std::string_view text) {
    return pass_on(listener.receive, listener.context, piece_of(kind), text);
  });
  batch.batch.start_tokens(
      prompt.tokens, wanted, [answer](std::string_view text) { return answer->push(text); },
      [answer, listener, n_prompt = prompt.tokens.size()](Generation generation, const std::exception_ptr &error) {
        tell(listener, error, [&] {
          const uint32_t n_reused = host::reused_tokens(generation, n_prompt);
          return hand_over(ChatReply{answer->finish(), std::move(generation), n_reused});
        });
      },
      priority(options));
}

std::vector<std::string> all_of(std::span<const char *const> prompts) {
  std::vector<std::string> all;
  for (const char *prompt : prompts) all.emplace_back(&required(prompt, "prompts"));
  return all;
}

}  // namespace
}  // namespace bonsai::c_api

using namespace bonsai;
using namespace bonsai::c_api;

bonsai_outcome bonsai_batch_options_init(bonsai_batch_options *options, uint64_t struct_size) {
  return fill(options, struct_size, raw_batch_defaults());
}

bonsai_outcome bonsai_batch_new(const bonsai_engine *engine, const bonsai_batch_options *options,
                                bonsai_batch_engine **batch, bonsai_failure *failure) {
  return guarded(failure, [&] {
    required(batch, "batch") = nullptr;
    const std::shared_ptr<const Engine> &known = required(engine, "engine").engine;
    *batch = new bonsai_batch_engine{.engine = known, .batch = BatchEngine(*known, batch_options(options))};
  });
}

void bonsai_batch_free(bonsai_batch_engine *batch) { delete batch; }

bonsai_outcome bonsai_batch_describe(const bonsai_batch_engine *batch, bonsai_batch_info *info,
                                     bonsai_failure *failure) {
  return guarded(failure, [&] {
    const BatchEngine &known = required(batch, "batch").batch;
    const uint32_t size = size_of(info);
    const BatchStats stats = known.stats();
    bonsai_batch_info made{};
    made.struct_size = size;
    made.running = stats.running;
    made.waiting = stats.waiting;
    made.context = stats.context;
    made.kv_blocks = stats.kv_blocks;
    made.kv_blocks_free = stats.kv_blocks_free;
    made.kv_blocks_kept = stats.kv_blocks_kept;
    made.kv_block_tokens = stats.kv_block_tokens;
    made.steps = stats.steps;
    made.computed_tokens = stats.computed_tokens;
    made.reused_tokens = stats.reused_tokens;
    made.preemptions = stats.preemptions;
    made.memory_bytes = stats.memory_bytes;
    const BackendInfo backend = known.backend();
    copy_text(backend.name, made.backend, sizeof made.backend);
    copy_text(backend.device, made.device, sizeof made.device);
    fill_known(*info, made);
  });
}

bonsai_outcome bonsai_batch_start(bonsai_batch_engine *batch, const char *prompt, uint64_t n_bytes,
                                  const bonsai_generate_options *options, bonsai_text_fn receive, bonsai_done_fn done,
                                  void *context, bonsai_failure *failure) {
  return guarded(failure, [&] {
    bonsai_batch_engine &known = required(batch, "batch");
    const std::vector<int32_t> tokens = known.engine->tokenize_prompt(text_of(prompt, n_bytes, "prompt"));
    start(known, tokens, options, {receive, done, context});
  });
}

bonsai_outcome bonsai_batch_start_tokens(bonsai_batch_engine *batch, const int32_t *tokens, uint64_t n_tokens,
                                         const bonsai_generate_options *options, bonsai_text_fn receive,
                                         bonsai_done_fn done, void *context, bonsai_failure *failure) {
  return guarded(failure, [&] {
    start(required(batch, "batch"), array_of(tokens, n_tokens, "tokens"), options, {receive, done, context});
  });
}

bonsai_outcome bonsai_batch_start_chat(bonsai_batch_engine *batch, const bonsai_message *messages, uint64_t n_messages,
                                       const bonsai_chat_options *chat, const bonsai_generate_options *options,
                                       bonsai_text_fn receive, bonsai_done_fn done, void *context,
                                       bonsai_failure *failure) {
  return guarded(failure, [&] {
    start_chat(required(batch, "batch"), chat_messages(messages, n_messages), chat_options(chat), options,
               {receive, done, context});
  });
}

bonsai_outcome bonsai_batch_generate(bonsai_batch_engine *batch, const char *const *prompts, uint64_t n,
                                     const bonsai_generate_options *options, const bonsai_generation **generations,
                                     bonsai_failure *failure) {
  return guarded(failure, [&] {
    array_of(generations, n, "generations");
    std::fill_n(generations, n, nullptr);
    BatchEngine &known = required(batch, "batch").batch;
    std::vector<Generation> made = known.generate(all_of(array_of(prompts, n, "prompts")), generate_options(options));
    // All or none: what is handed over is the caller's once nothing can fail any more.
    struct End {
      void operator()(const bonsai_generation *generation) const { end(generation); }
    };
    std::vector<std::unique_ptr<const bonsai_generation, End>> owned;
    owned.reserve(made.size());  // a generation that there was no room for would be nobody's
    for (Generation &generation : made) owned.emplace_back(hand_over(std::move(generation)));
    for (size_t i = 0; i < owned.size(); ++i) generations[i] = owned[i].release();
  });
}
