// bonsai-bench-scheduling MODEL.gguf PART: what sharing of prefixes gains, what preemption costs, what guesses gain and
// cost, and what it costs to copy a block of the KV cache, on the CPU backend. The figures of docs/scheduling.md come
// from here.
#include <bonsai/batch_engine.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/standard_streams.h"
#include "host/backend/registry.h"
#include "host/engine/engine_state.h"
#include "host/runtime/executor.h"

namespace {

using Tokens = std::vector<int32_t>;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kContext = 2560;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Ids from all over the vocabulary; another text for another seed.
Tokens make_text(uint32_t n_tokens, uint32_t seed, uint32_t vocabulary) {
  Tokens tokens(n_tokens);
  for (uint64_t i = 0; i < n_tokens; ++i)
    tokens[i] = static_cast<int32_t>((i * 2654435761u + 7919u * seed) % vocabulary);
  return tokens;
}

// Every token is "a", whatever the model says: a callback hears of each.
bonsai::GenerateOptions decode(const bonsai::Engine &engine, uint32_t n_tokens) {
  bonsai::GenerateOptions options;
  options.max_tokens = n_tokens;
  options.sampling = *bonsai::sampling_preset("greedy");
  options.sampling.logit_bias.push_back({engine.tokenize("a").front(), 1e6f});
  return options;
}

// A system prompt of 2,000 tokens, and 20 of a user's own behind it.
void measure_prefixes(const bonsai::Engine &engine) {
  constexpr uint32_t kShared = 2000, kOwn = 20;
  bonsai::BatchEngine batch(engine, {.max_sequences = 1, .batch_tokens = 256, .kv_tokens = 2 * kContext});
  double first = 0;
  for (uint32_t user = 1; user <= 3; ++user) {
    Tokens prompt = make_text(kShared, 0, engine.model().vocabulary);
    const Tokens own = make_text(kOwn, user, engine.model().vocabulary);
    prompt.insert(prompt.end(), own.begin(), own.end());
    const auto stats = batch.submit_tokens(prompt, decode(engine, 1)).get().stats;
    if (user == 1) first = stats.prompt_seconds;
    fmt::print("request {}: first token after {:8.1f} ms, {:4} tokens computed, {:.1f} times sooner than the first\n",
               user, 1e3 * stats.prompt_seconds, stats.prompt_tokens, first / stats.prompt_seconds);
  }
}

// Eight requests of 64 + 96 tokens, with room for all of them or for half.
void measure_preemption(const bonsai::Engine &engine) {
  constexpr uint32_t kRequests = 8, kPrompt = 64, kNew = 96;
  std::vector<Tokens> prompts;
  for (uint32_t i = 0; i < kRequests; ++i) prompts.push_back(make_text(kPrompt, i, engine.model().vocabulary));
  bonsai::GenerateOptions options;
  options.max_tokens = kNew;
  options.ignore_eos = true;
  options.sampling = *bonsai::sampling_preset("greedy");
  std::vector<Tokens> texts;
  const auto run = [&](const char *name, uint32_t kv_tokens, bool share) {
    bonsai::BatchEngine batch(engine, {.max_sequences = kRequests, .kv_tokens = kv_tokens, .share_prefixes = share});
    const auto start = Clock::now();
    std::vector<Tokens> found;
    for (auto &generation : batch.generate_tokens(prompts, options)) found.push_back(std::move(generation.tokens));
    const double seconds = seconds_since(start);
    if (texts.empty()) texts = found;
    const bonsai::BatchStats stats = batch.stats();
    fmt::print("{:<34} {:6.2f} s, {:3} steps, {:2} preemptions, {:4} tokens computed, texts {}\n", name, seconds,
               stats.steps, stats.preemptions, stats.computed_tokens, found == texts ? "the same" : "DIFFERENT");
  };
  run("room for all", kRequests * (kPrompt + kNew), true);
  run("room for half, blocks kept", kRequests * (kPrompt + kNew) / 2, true);
  run("room for half, everything again", kRequests * (kPrompt + kNew) / 2, false);
}

// A text of 512 tokens gives its place to an urgent one of 16, and goes on behind it.
void measure_giving_way(const bonsai::Engine &engine) {
  const Tokens text = make_text(512, 1, engine.model().vocabulary),
               urgent = make_text(16, 2, engine.model().vocabulary);
  for (const bool share : {true, false}) {
    bonsai::BatchEngine batch(engine, {.max_sequences = 1, .kv_tokens = 2 * kContext, .share_prefixes = share});
    std::future<bonsai::Generation> other;
    double seconds = 0;
    Clock::time_point last;
    batch
        .submit_tokens(text, decode(engine, 8),
                       [&](std::string_view) {
                         if (other.valid()) seconds = std::max(seconds, seconds_since(last));
                         if (!other.valid()) other = batch.submit_tokens(urgent, decode(engine, 1), {}, 1);
                         last = Clock::now();
                         return true;
                       })
        .get();
    fmt::print("giving way, {:<23} {:8.1f} ms until the next token, {:4} tokens computed in all\n",
               share ? "blocks kept" : "everything again", 1e3 * seconds, batch.stats().computed_tokens);
  }
}

// Texts of 128 tokens, without guesses and with them, in turns: greedy ones, which soon repeat themselves with random
// weights, or such as repeat nothing. An engine for each kind, so that it is known what its steps take.
void measure_guesses(const bonsai::Engine &engine, bool repeats) {
  constexpr uint32_t kNew = 128, kRounds = 3;
  for (const uint32_t n_texts : {1u, 2u, 4u, 8u}) {
    bonsai::BatchEngine batch(engine, {.max_sequences = n_texts, .share_prefixes = false});
    std::vector<double> speeds[2];
    uint32_t proposed = 0, accepted = 0;
    const auto run = [&](bool lookup, uint32_t round) {
      std::vector<std::future<bonsai::Generation>> texts;
      for (uint32_t i = 0; i < n_texts; ++i) {
        bonsai::GenerateOptions options;
        options.max_tokens = kNew;
        options.ignore_eos = true;
        options.lookup = lookup;
        if (repeats) options.sampling.temperature = 0;
        if (!repeats) options.sampling = {.temperature = 5, .top_k = 40, .top_p = 1, .seed = 100 * round + i};
        texts.push_back(
            batch.submit(fmt::format("The {} and the second and the third and the fourth and", i), options));
      }
      double steps = 0, seconds = 0;
      for (auto &text : texts) {
        const bonsai::GenerationStats stats = text.get().stats;
        steps += stats.decode_steps;
        seconds = std::max(seconds, stats.decode_seconds);
        proposed += stats.proposed_tokens;
        accepted += stats.accepted_tokens;
      }
      return steps / seconds;
    };
    for (uint32_t round = 0; round <= kRounds; ++round) {  // the first is not counted
      for (const bool lookup : {false, true}) {
        const double speed = run(lookup, round);
        if (round > 0) speeds[lookup].push_back(speed);
      }
    }
    for (auto &of_kind : speeds) std::sort(of_kind.begin(), of_kind.end());
    fmt::print("{} texts: {:6.1f} tokens/s without guesses, {:6.1f} with ({:.2f} times), {} of {} guesses right\n",
               n_texts, speeds[0][kRounds / 2], speeds[1][kRounds / 2], speeds[1][kRounds / 2] / speeds[0][kRounds / 2],
               accepted, proposed);
  }
}

// One block, against the time of a token in a prompt of 32.
void measure_copy(const std::string &path) {
  using namespace bonsai::host;
  EngineState state;
  state.model = value_or_throw(bonsai::model::load_model(path), bonsai::ErrorKind::kModel);
  const auto device = value_or_throw(open_cpu({}, nullptr));
  const auto model = value_or_throw(DeviceModel::upload(state.model, *device, nullptr));
  ExecutorConfig config{.context = 64, .n_blocks = 64, .max_tokens = 32, .max_blocks_per_sequence = 2};
  const auto executor = value_or_throw(make_executor(*model, config));

  const Tokens tokens = make_text(config.block_size, 1, state.model.config.vocab);
  std::vector<uint32_t> positions(tokens.size()), sequences(tokens.size(), 0), table = {0, 1};
  std::iota(positions.begin(), positions.end(), 0u);
  const Batch batch{tokens, positions, sequences, table, 1, 2};
  double forward_seconds = 0, copy_seconds = 0;
  constexpr uint32_t kRounds = 3;
  for (uint32_t round = 0; round <= kRounds; ++round) {  // the first is not counted
    auto start = Clock::now();
    value_or_throw(executor->forward(batch, {}));
    if (round > 0) forward_seconds += seconds_since(start) / kRounds;
    std::vector<uint32_t> from(config.n_blocks / 2), to(config.n_blocks / 2);
    std::iota(from.begin(), from.end(), 0u);
    std::iota(to.begin(), to.end(), config.n_blocks / 2);
    start = Clock::now();
    value_or_throw(executor->kv_copy(from, to));
    if (round > 0) copy_seconds += seconds_since(start) / kRounds / static_cast<double>(from.size());
  }
  fmt::print("a block is copied in {:.3f} ms; a token of a prompt of {} is computed in {:.3f} ms\n", 1e3 * copy_seconds,
             tokens.size(), 1e3 * forward_seconds / static_cast<double>(tokens.size()));
}

struct Part {
  std::string_view name;
  void (*measure)(const char *model);
};

bonsai::Engine load(const char *model) {
  return bonsai::Engine::load({.model = model, .backend = "cpu", .context = kContext});
}

constexpr Part kParts[] = {
    {"copy", [](const char *model) { measure_copy(model); }},
    {"prefixes", [](const char *model) { measure_prefixes(load(model)); }},
    {"giving-way", [](const char *model) { measure_giving_way(load(model)); }},
    {"preemption", [](const char *model) { measure_preemption(load(model)); }},
    {"guesses", [](const char *model) { measure_guesses(load(model), true); }},
    {"no-guesses", [](const char *model) { measure_guesses(load(model), false); }},
};

}  // namespace

int main(int argc, char **argv) {
  const auto part = std::find_if(std::begin(kParts), std::end(kParts),
                                 [&](const Part &each) { return argc == 3 && each.name == argv[2]; });
  if (part == std::end(kParts)) {
    bonsai::write_to_stderr(
        "usage: bonsai-bench-scheduling MODEL.gguf copy|prefixes|giving-way|preemption|guesses|no-guesses\n");
    return 2;
  }
  try {
    part->measure(argv[1]);
  } catch (const std::exception &error) {
    bonsai::print_to_stderr("bonsai-bench-scheduling: {}\n", error.what());
    return 1;
  }
}
