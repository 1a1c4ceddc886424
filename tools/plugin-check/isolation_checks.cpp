#include "tools/plugin-check/isolation_checks.h"

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <vector>

#include "tools/plugin-check/matrix.h"
#include "tools/plugin-check/product.h"
#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

constexpr uint32_t kTokens = 40;

// A session's own text, in blocks that the other session has, too.
struct Text {
  explicit Text(Stage &stage, uint64_t seed)
      : stage(stage),
        tokens(stage.tokens(kTokens, seed)),
        blocks(stage.take_blocks(kTokens)),
        expected(stage.judge(tokens)) {}

  // The tokens [begin, end) as a batch, with the logits of all of them.
  Batch batch(uint32_t begin, uint32_t end, Outputs &outputs) const {
    Batch batch;
    batch.block_table = {blocks};
    for (uint32_t i = begin; i < end; ++i) {
      outputs.logits(batch.size());
      batch.add(tokens[i], i);
    }
    return batch;
  }
  void compare(Comparison &comparison, const Outputs &outputs, uint32_t begin) const {
    for (uint32_t i = 0; i < outputs.size(); ++i)
      comparison.add(fmt::format("with another session beside it, position {}", begin + i), outputs[i].logits,
                     expected[begin + i]);
  }

  Stage &stage;
  const std::vector<int32_t> tokens;
  const std::vector<uint32_t> blocks;
  const Logits expected;
};

using Pair = std::array<const Text *, 2>;

// Chunk by chunk in turn: submits of both are in flight at once, or layers of both take turns.
void run_by_submits(const Pair &texts, uint32_t begin, uint32_t end, Comparison &comparison) {
  std::array<Outputs, 2> outputs = {texts[0]->stage.outputs(), texts[1]->stage.outputs()};
  std::array<uint64_t, 2> tickets;
  for (size_t i = 0; i < 2; ++i) {
    Batch batch = texts[i]->batch(begin, end, outputs[i]);
    tickets[i] = texts[i]->stage.session.submit(batch, outputs[i]);
  }
  for (size_t i = 0; i < 2; ++i) {
    texts[i]->stage.session.wait(tickets[i]);
    texts[i]->compare(comparison, outputs[i], begin);
  }
}

void run_by_layers(const Pair &texts, uint32_t begin, uint32_t end, Comparison &comparison) {
  std::array<Outputs, 2> outputs = {texts[0]->stage.outputs(), texts[1]->stage.outputs()};
  std::array<Batch, 2> batches = {texts[0]->batch(begin, end, outputs[0]), texts[1]->batch(begin, end, outputs[1])};
  for (uint32_t layer = 0; layer < texts[0]->stage.config().layers; ++layer) {
    for (size_t i = 0; i < 2; ++i) {
      const std::vector<float> states = embed(texts[i]->stage.random.model(), batches[i].tokens);
      bonsai_batch view = batches[i].view();
      view.tokens = nullptr;
      texts[i]->stage.session.encode(layer, view, layer == 0 ? states.data() : nullptr, nullptr);
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    Session &session = texts[i]->stage.session;
    bonsai_error error = empty_error();
    expect_ok("lm_head",
              session.api.lm_head(session.handle, nullptr, end - begin, outputs[i].data(), outputs[i].size(), &error),
              error);
    texts[i]->compare(comparison, outputs[i], begin);
  }
}

int32_t likeliest(const std::vector<double> &logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The last position, before the very last, at which the texts go on differently: there it shows if one's token is taken
// for the other's.
uint32_t position_that_differs(const Pair &texts) {
  for (uint32_t position = kTokens - 1; position-- > 0;) {
    if (likeliest(texts[0]->expected[position]) != likeliest(texts[1]->expected[position])) return position;
  }
  failed("two random texts have the same likeliest tokens throughout");
}

// One token of each text, and then a chained one of each: a session's previous submit is not its device's.
void run_chained(const Pair &texts, Comparison &comparison) {
  const uint32_t position = position_that_differs(texts);
  std::array<Outputs, 2> selected = {texts[0]->stage.outputs(), texts[1]->stage.outputs()};
  std::array<Outputs, 2> next = {texts[0]->stage.outputs(), texts[1]->stage.outputs()};
  std::vector<uint64_t> tickets;
  const auto submit = [&](const Text &text, int32_t token, uint32_t at, const Outputs &outputs) {
    Batch batch;
    batch.block_table = {text.blocks};
    batch.add(token, at);
    tickets.push_back(text.stage.session.submit(batch, outputs));
  };
  for (size_t i = 0; i < 2; ++i) {
    selected[i].argmax(0);
    submit(*texts[i], texts[i]->tokens[position], position, selected[i]);
  }
  for (size_t i = 0; i < 2; ++i) {
    next[i].logits(0);
    submit(*texts[i], BONSAI_TOKEN_FROM_OUTPUT(0), position + 1, next[i]);
  }
  for (size_t i = 0; i < 4; ++i) texts[i % 2]->stage.session.wait(tickets[i]);
  for (size_t i = 0; i < 2; ++i) {
    std::vector<int32_t> text(texts[i]->tokens.begin(), texts[i]->tokens.begin() + position + 1);
    text.push_back(selected[i][0].top_ids[0]);
    comparison.add(fmt::format("a chained token with another session beside it, session {} of 2", i), next[i][0].logits,
                   texts[i]->stage.judge(text).back());
  }
}

// Two sessions of one device, whose texts go on in turn in blocks of the same numbers.
void check_two_sessions(Context &context, Path path) {
  path == Path::kForward ? context.need_forward_with_tokens() : context.need_sessions();
  const ModelShape shape = narrow_shape(context.plainest_format());
  Stage one(context, shape, {.path = path}), other(context, shape, {.path = path});
  const Text first(one, 1), second(other, 2);
  Comparison comparison(one.bound);
  constexpr std::array<uint32_t, 7> kEnds = {17, 18, 19, 30, 31, 39, kTokens};
  uint32_t begin = 0;
  for (const uint32_t end : kEnds) {
    const auto run = path == Path::kForward ? run_by_submits : run_by_layers;
    run({&first, &second}, begin, end, comparison);
    begin = end;
  }
  if (path == Path::kForward && context.has(BONSAI_FEATURE_TOKEN_CHAINING)) run_chained({&first, &second}, comparison);
  comparison.finish("two sessions of one device, in turn");
}

// -------- Devices

void multiply_often(host::Device &device, quant::Format format, uint64_t seed) {
  Random random(seed);
  const Matrix matrix = make_matrix(format, 65, 512, Pattern::kRandom, random);
  const host::Weight::Part part = {static_cast<bonsai_dtype>(matrix.format), matrix.rows, matrix.blocks()};
  for (int i = 0; i < 20; ++i) {
    const host::Weight weight =
        value_if_served(host::Weight::upload(device, "w", matrix.columns, {&part, 1}, BONSAI_USE_MATRIX, false));
    expect_multiplied(device, weight, matrix);
  }
}

void run_often(Context &context, uint64_t seed) {
  Stage stage(context, narrow_shape(context.plainest_format()));
  const Text text(stage, seed);
  for (int i = 0; i < 10; ++i) {
    Comparison comparison(stage.bound);
    comparison.add_rows("a prompt, with another device beside it", stage.session.logits(text.tokens, 0, text.blocks),
                        text.expected);
    comparison.finish("a prompt, with another device beside it");
  }
}

// Calls on different devices may run at once.
void check_two_devices(Context &context) {
  Context beside(context.plugin());
  const auto use = [](Context &own, uint64_t seed) {
    multiply_often(*own.open_another(), own.plainest_format(), seed);
    if (own.api().session_create != nullptr) run_often(own, seed);
  };
  auto one = std::async(std::launch::async, [&] { use(context, 1); });
  auto other = std::async(std::launch::async, [&] { use(beside, 2); });
  one.get();
  other.get();
}

}  // namespace

void add_isolation_checks(std::vector<Check> &checks) {
  checks.push_back({"layers.two-sessions", "sessions of one device have nothing in common (level 1)",
                    [](Context &context) { check_two_sessions(context, Path::kLayers); }});
  checks.push_back({"forward.two-sessions", "sessions of one device have nothing in common (level 2)",
                    [](Context &context) { check_two_sessions(context, Path::kForward); }});
  checks.push_back({"threads.two-devices", "calls on different devices may run at once", check_two_devices});
}

}  // namespace bonsai::check
