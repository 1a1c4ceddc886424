#include "tools/plugin-check/output_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// How far float32 results that are computed twice may be apart; logits here are near 1.
constexpr double kNearly = 1e-4;
bool nearly(double a, double b) {
  const bool finite = std::isfinite(a) && std::isfinite(b);
  return a == b || (finite && std::abs(a - b) <= kNearly * std::max({1.0, std::abs(a), std::abs(b)}));
}

// A vocabulary that has room for the largest k, and is no multiple of anything.
ModelShape wide_shape(Context &context) {
  context.need_sessions();
  ModelShape shape = narrow_shape(context.plainest_format());
  shape.vocab = 1531;
  return shape;
}

uint32_t largest_k(Context &context) {
  const uint32_t k = context.info().max_k;
  expect(k >= 1024, "device_info: max_k is {}, expected at least 1024 where sessions are offered", k);
  return std::min(k, 1531u);
}

// A batch of `n` tokens of one sequence from position 0.
Batch prompt(Stage &stage, uint32_t n) {
  Batch batch;
  batch.block_table = {stage.take_blocks(n)};
  const std::vector<int32_t> tokens = stage.tokens(n);
  for (uint32_t i = 0; i < n; ++i) batch.add(tokens[i], i);
  return batch;
}

// -------- Selection

void expect_top(const Outputs::Result &top, const std::vector<float> &logits) {
  const size_t k = top.top_ids.size();
  std::vector<bool> taken(logits.size());
  for (size_t i = 0; i < k; ++i) {
    const int32_t id = top.top_ids[i];
    expect(id >= 0 && static_cast<size_t>(id) < logits.size(), "top-{}: id {} at rank {}, expected 0 to {}", k, id, i,
           logits.size() - 1);
    const auto index = static_cast<size_t>(id);
    expect(!taken[index], "top-{}: id {} occurs twice", k, id);
    taken[index] = true;
    expect(nearly(top.top_logits[i], logits[index]), "top-{}: id {} has logit {}, but {} among all logits", k, id,
           top.top_logits[i], logits[index]);
    if (i == 0) continue;
    const float before = top.top_logits[i - 1], here = top.top_logits[i];
    expect(before > here || (before == here && top.top_ids[i - 1] < id),
           "top-{}: rank {} has id {} of {} after id {} of {}", k, i, id, here, top.top_ids[i - 1], before);
  }
  const double least = top.top_logits[k - 1];
  for (size_t id = 0; id < logits.size(); ++id) {
    expect(taken[id] || logits[id] <= least || nearly(logits[id], least),
           "top-{}: id {} of {} is missing; the last has {}", k, id, logits[id], least);
  }
}

void expect_log_sum_exp(float value, const std::vector<float> &logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  const double expected = largest + std::log(sum);
  expect(nearly(value, expected), "log-sum-exp is {}, expected {}", value, expected);
}

void expect_argmax(const Outputs::Result &result, const std::vector<float> &logits) {
  const int32_t id = result.top_ids[0];
  expect(id >= 0 && static_cast<size_t>(id) < logits.size(), "argmax: id {}, expected 0 to {}", id, logits.size() - 1);
  const float largest = *std::max_element(logits.begin(), logits.end()), logit = logits[static_cast<size_t>(id)];
  expect(nearly(logit, largest), "argmax: id {} of {}, but the largest logit is {}", id, logit, largest);
  expect(nearly(result.top_logits[0], logit), "argmax: id {} has logit {}, but {} among all logits", id,
         result.top_logits[0], logit);
}

void check_selection(Context &context) {
  const ModelShape shape = wide_shape(context);
  const uint32_t most = largest_k(context);
  Stage stage(context, shape, {.max_k = most});
  Batch batch = prompt(stage, 3);
  const std::vector<int32_t> ids = {3, 1530, 3, 0};
  const std::vector<uint32_t> ks = {1, 2, 5, 64, most};
  Outputs outputs = stage.outputs();
  outputs.logits(1);
  outputs.argmax(1);
  for (const uint32_t k : ks) outputs.top(1, k, ids);
  for (const uint32_t k : ks) outputs.top(1, k, ids).log_sum_exp = nullptr;
  std::vector<int32_t> most_ids(shape.vocab);  // each but the last twice
  for (uint32_t i = 0; i < shape.vocab; ++i) most_ids[i] = static_cast<int32_t>(i / 2);
  outputs.top(1, ks[0], most_ids);
  stage.session.run(batch, outputs);
  const std::vector<float> &logits = outputs[0].logits;
  expect_argmax(outputs[1], logits);
  for (uint32_t i = 0; i <= 2 * ks.size(); ++i) {
    const Outputs::Result &top = outputs[2 + i];
    expect_top(top, logits);
    if (i < ks.size()) expect_log_sum_exp(top.log_sum_exp, logits);
    for (size_t j = 0; j < top.ids.size(); ++j) {
      const float logit = logits[static_cast<size_t>(top.ids[j])];
      expect(nearly(top.id_logits[j], logit), "top-{}: the asked-for logit of id {} is {}, expected {}",
             top.top_ids.size(), top.ids[j], top.id_logits[j], logit);
    }
  }
}

// Outputs of all kinds in any order of tokens, several of one token, and none.
void check_order(Context &context) {
  Stage stage(context, narrow_shape(context.plainest_format()));
  const uint32_t n = 70;
  Batch batch = prompt(stage, n);
  Outputs outputs = stage.outputs();
  for (uint32_t i = 0; i < 2 * n; ++i) {
    const uint32_t token = (i * 29 + 3) % n;
    i % 3 ? outputs.logits(token) : outputs.hidden_state(token);
    if (i % 5 == 0) outputs.argmax(token);
  }
  stage.session.run(batch, outputs);
  const Logits logits = stage.judge(batch.tokens), hidden = judge_hidden(stage.random.model(), stage.kv, batch.tokens);
  Comparison comparison(stage.bound);
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const bonsai_output &output = *outputs.data()[i];
    const std::string what = fmt::format("output {} of token {}", i, output.token);
    if (output.kind == BONSAI_OUTPUT_LOGITS) comparison.add(what, outputs[i].logits, logits[output.token]);
    if (output.kind == BONSAI_OUTPUT_HIDDEN) comparison.add(what, outputs[i].hidden, hidden[output.token]);
    if (output.kind == BONSAI_OUTPUT_ARGMAX) {
      expect_argmax(outputs[i], {logits[output.token].begin(), logits[output.token].end()});
    }
  }
  comparison.finish("outputs of all kinds");
  stage.session.run(batch, stage.outputs());  // no outputs: only the KV cache is filled
}

// lm_head over rows that the caller brings.
void check_head(Context &context) {
  context.need_sessions();
  ModelShape shape = narrow_shape(context.plainest_format());
  Stage stage(context, shape, {.path = Path::kLayers});
  const uint32_t n_rows = stage.session.config.max_tokens + 3;
  Random random(3);
  std::vector<float> in(n_rows * shape.hidden);
  for (float &value : in) value = static_cast<float>(2 * random.normal());
  Outputs outputs = stage.outputs();
  for (const uint32_t row : {n_rows - 1, 4u, 0u, 2u}) outputs.logits(row);
  bonsai_error error = empty_error();
  expect_ok("lm_head",
            context.api().lm_head(stage.session.handle, in.data(), n_rows, outputs.data(), outputs.size(), &error),
            error);
  expect_ok("lm_head without outputs",
            context.api().lm_head(stage.session.handle, in.data(), n_rows, nullptr, 0, &error), error);
  const model::Model &model = stage.random.model();
  const reference::Matrix head(*model.head, false);
  Comparison comparison(stage.bound);
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const float *x = &in[outputs.data()[i]->token * shape.hidden];
    double squares = 0;
    for (uint32_t c = 0; c < shape.hidden; ++c) squares += static_cast<double>(x[c]) * x[c];
    const double scale = 1 / std::sqrt(squares / shape.hidden + model.config.rms_eps);
    std::vector<double> h(shape.hidden);
    for (uint32_t c = 0; c < shape.hidden; ++c) h[c] = model.output_norm[c] * x[c] * scale;
    comparison.add(fmt::format("row {}", outputs.data()[i]->token), outputs[i].logits, head.multiply(h));
  }
  comparison.finish("lm_head over given rows");
}

// A head of zeros makes all logits equal, whatever a backend's arithmetic is.
void check_ties(Context &context) {
  ModelShape shape = wide_shape(context);
  shape.edit = [](const std::string &part, std::span<float> weights) {
    if (part == "output") std::fill(weights.begin(), weights.end(), 0.0f);
  };
  Stage stage(context, shape);
  Batch batch = prompt(stage, 2);
  Outputs outputs = stage.outputs();
  outputs.argmax(0);
  outputs.top(0, 40);
  const std::vector<int32_t> ids = {1200, 41, 90, 17};
  const std::vector<float> add = {5, 5, 5, 5}, repeat = {1, 1, 1, 1};
  const bool adjusts = context.has(BONSAI_FEATURE_ADJUST);
  for (int i = 0; adjusts && i < 2; ++i) {
    bonsai_output &output = i ? outputs.top(1, 6) : outputs.argmax(1);
    output.n_adjustments = 4;
    output.adjust_ids = ids.data();
    output.adjust_add = add.data();
    output.adjust_repeat = repeat.data();
  }
  stage.session.run(batch, outputs);
  expect(outputs[0].top_ids[0] == 0, "argmax of equal logits is {}, expected 0, the lowest id", outputs[0].top_ids[0]);
  for (int32_t i = 0; i < 40; ++i) {
    const int32_t id = outputs[1].top_ids[static_cast<size_t>(i)];
    expect(id == i, "top-40 of equal logits: rank {} has id {}, expected the lowest ids in order", i, id);
  }
  if (!adjusts) return;
  expect(outputs[2].top_ids[0] == 17, "argmax of 17, 41, 90 and 1200, all 5, is {}, expected 17",
         outputs[2].top_ids[0]);
  expect(outputs[3].top_ids == std::vector<int32_t>{17, 41, 90, 1200, 0, 1},
         "top-6 of equal logits is {}, expected 17, 41, 90, 1200, 0, 1", fmt::join(outputs[3].top_ids, ", "));
}

// Whatever is selected among logits of which some are NaN, or all, its reader takes it for ids.
void check_nan(Context &context) {
  context.need_sessions();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  ModelShape shape = wide_shape(context);
  shape.edit = [&](const std::string &part, std::span<float> weights) {
    if (part != "output" || !is_float(shape.format)) return;  // the others have no code for it
    for (size_t i = 0; i < weights.size(); i += 7 * shape.hidden) weights[i] = kNan;
  };
  Stage stage(context, shape, {.path = Path::kLayers});
  std::vector<float> in(2 * shape.hidden, 0.5f);
  std::fill(in.begin(), in.begin() + shape.hidden, kNan);
  Outputs outputs = stage.outputs();
  for (const uint32_t row : {0u, 1u}) {
    outputs.argmax(row);
    outputs.top(row, 60);
  }
  const bonsai_status status =
      context.api().lm_head(stage.session.handle, in.data(), 2, outputs.data(), outputs.size(), nullptr);
  if (status != BONSAI_OK) return;  // a backend that looks may say so
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    std::vector<int32_t> ids = outputs[i].top_ids;
    std::sort(ids.begin(), ids.end());
    expect(ids.front() >= 0 && static_cast<uint32_t>(ids.back()) < shape.vocab,
           "among NaN: an id of {} is selected, expected 0 to {}", ids.front() < 0 ? ids.front() : ids.back(),
           shape.vocab - 1);
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    expect(twice == ids.end(), "among NaN: id {} is selected twice", twice == ids.end() ? 0 : *twice);
  }
}

// -------- Adjustments

struct Adjustment {
  std::vector<int32_t> ids;
  std::vector<float> add, repeat;
  std::vector<uint32_t> mask;
  float temperature = 0;

  void apply_to(bonsai_output &output) const {
    output.n_adjustments = static_cast<uint32_t>(ids.size());
    output.adjust_ids = ids.data();
    output.adjust_add = add.data();
    output.adjust_repeat = repeat.data();
    output.mask = mask.empty() ? nullptr : mask.data();
    output.temperature = temperature;
  }
  // What the ABI says, as a plain loop.
  std::vector<float> applied_to(std::vector<float> logits) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      float &logit = logits[static_cast<size_t>(ids[i])];
      logit = (logit > 0 ? logit / repeat[i] : logit * repeat[i]) + add[i];
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!mask.empty() && !(mask[i / 32] >> (i % 32) & 1)) logits[i] = kMinusInfinity;
      if (temperature != 0) logits[i] /= temperature;
    }
    return logits;
  }
};

std::vector<Adjustment> adjustments(uint32_t vocab) {
  Random random(4);
  Adjustment all;
  for (uint32_t id = 0; id < vocab; id += 1 + random.below(9)) {
    all.ids.push_back(static_cast<int32_t>(id));
    all.add.push_back(static_cast<float>(random.normal()));
    all.repeat.push_back(static_cast<float>(0.5 + random.uniform()));
  }
  random.shuffle(all.ids);
  all.mask.resize((vocab + 31) / 32);
  for (uint32_t &word : all.mask) word = static_cast<uint32_t>(random.next() | random.next());
  all.temperature = 0.7f;

  Adjustment added = all, repeated = all, excluded, masked, cold, hot, unchanged;
  for (Adjustment *some : {&added, &repeated}) some->mask.clear(), some->temperature = 0;
  std::fill(added.repeat.begin(), added.repeat.end(), 1.0f);
  std::fill(repeated.add.begin(), repeated.add.end(), 0.0f);
  excluded = added;
  std::fill(excluded.add.begin(), excluded.add.end(), kMinusInfinity);
  masked.mask = all.mask;
  cold.temperature = 0.05f;
  hot.temperature = 3;
  unchanged.temperature = 1;
  return {unchanged, added, repeated, excluded, masked, cold, hot, all};
}

void expect_adjusted(const std::vector<float> &logits, const std::vector<float> &expected, const char *what) {
  for (size_t id = 0; id < expected.size(); ++id) {
    expect(nearly(logits[id], expected[id]), "{}: the adjusted logit of id {} is {}, expected {}", what, id, logits[id],
           expected[id]);
  }
}

void expect_adjusted_ids(const Outputs::Result &result, const std::vector<float> &expected, const char *what) {
  for (size_t i = 0; i < result.ids.size(); ++i) {
    const float logit = expected[static_cast<size_t>(result.ids[i])];
    expect(nearly(result.id_logits[i], logit), "{}: the asked-for logit of id {} is {}, expected {} after adjustments",
           what, result.ids[i], result.id_logits[i], logit);
  }
}

void check_adjustments(Context &context) {
  const ModelShape shape = wide_shape(context);
  skip_unless(context.has(BONSAI_FEATURE_ADJUST), "BONSAI_FEATURE_ADJUST is not declared");
  constexpr const char *kNames[] = {"temperature 1", "additions",        "repetition factors", "additions of -infinity",
                                    "a mask",        "temperature 0.05", "temperature 3",      "all adjustments"};
  const std::vector<Adjustment> cases = adjustments(shape.vocab);
  Stage stage(context, shape);
  Batch batch = prompt(stage, 2);
  Outputs outputs = stage.outputs();
  outputs.logits(1);
  for (const Adjustment &adjustment : cases) {
    adjustment.apply_to(outputs.logits(1));
    adjustment.apply_to(outputs.argmax(1));
    adjustment.apply_to(outputs.top(1, 20, {0, 1530}));
  }
  stage.session.run(batch, outputs);
  for (uint32_t i = 0; i < cases.size(); ++i) {
    const std::vector<float> expected = cases[i].applied_to(outputs[0].logits);
    expect_adjusted(outputs[1 + 3 * i].logits, expected, kNames[i]);
    expect_argmax(outputs[2 + 3 * i], expected);
    expect_top(outputs[3 + 3 * i], expected);
    expect_log_sum_exp(outputs[3 + 3 * i].log_sum_exp, expected);
    expect_adjusted_ids(outputs[3 + 3 * i], expected, kNames[i]);
  }
}

// A backend that does not offer adjustments says so when it is given some.
void check_unoffered_adjustments(Context &context) {
  const ModelShape shape = wide_shape(context);
  skip_unless(!context.has(BONSAI_FEATURE_ADJUST), "BONSAI_FEATURE_ADJUST is declared");
  Stage stage(context, shape, {.path = Path::kLayers});
  const std::vector<float> in(shape.hidden, 0.5f);
  for (const Adjustment &adjustment : adjustments(shape.vocab)) {
    if (adjustment.temperature == 1) continue;  // changes nothing: may be served
    Outputs outputs = stage.outputs();
    adjustment.apply_to(outputs.logits(0));
    const bonsai_status status = context.api().lm_head(stage.session.handle, in.data(), 1, outputs.data(), 1, nullptr);
    expect(status == BONSAI_UNSUPPORTED, "adjustments that are not offered: status {}, expected BONSAI_UNSUPPORTED",
           status_name(status));
  }
}

// -------- Submits

// A prompt and the next token, both submitted before either is waited for; a third is refused meanwhile.
void check_in_flight(Context &context) {
  context.need_forward_with_tokens();
  Stage stage(context, narrow_shape(context.plainest_format()));
  const std::vector<int32_t> tokens = stage.tokens(34);
  const Logits expected = stage.judge(tokens);
  Batch first, second;
  first.block_table = second.block_table = {stage.take_blocks(34)};
  for (uint32_t i = 0; i < 33; ++i) first.add(tokens[i], i);
  second.add(tokens[33], 33);
  Outputs of_first = stage.outputs(), of_second = stage.outputs();
  of_first.logits(32);
  of_second.logits(0);
  const uint64_t first_ticket = stage.session.submit(first, of_first),
                 second_ticket = stage.session.submit(second, of_second);
  const bonsai_batch view = second.view();
  uint64_t third_ticket = 77;
  const bonsai_status status =
      context.api().forward_submit(stage.session.handle, &view, nullptr, 0, &third_ticket, nullptr);
  expect(status == BONSAI_INVALID_ARGUMENT, "a third submit in flight: status {}, expected BONSAI_INVALID_ARGUMENT",
         status_name(status));
  expect(third_ticket == 77, "a third submit in flight is refused, but has written a ticket of {}", third_ticket);
  stage.session.wait(first_ticket);
  stage.session.wait(second_ticket);
  Comparison comparison(stage.bound);
  comparison.add("the first submit", of_first[0].logits, expected[32]);
  comparison.add("the second submit", of_second[0].logits, expected[33]);
  comparison.finish("two submits in flight");
}

// A session that is ended while a pass is in flight takes that with it, and nothing else.
void check_dropped(Context &context) {
  context.need_forward_with_tokens();
  Stage stage(context, narrow_shape(context.plainest_format()));
  Batch batch = prompt(stage, 33);
  Outputs dropped = stage.outputs(), kept = stage.outputs();
  for (Outputs *outputs : {&dropped, &kept}) outputs->logits(32);
  {
    Session session(stage.uploaded, stage.session.config, Path::kForward);
    session.submit(batch, dropped);
  }
  stage.session.run(batch, kept);
  Comparison comparison(stage.bound);
  comparison.add("another session", kept[0].logits, stage.judge(batch.tokens)[32]);
  comparison.finish("another session, after one was ended with a submit in flight");
}

}  // namespace

void add_output_checks(std::vector<Check> &checks) {
  checks.push_back(
      {"outputs.selection", "top-k, log-sum-exp, asked-for ids and argmax fit the logits", check_selection});
  checks.push_back(
      {"outputs.order", "outputs may name tokens in any order, several times, or not at all", check_order});
  checks.push_back({"outputs.head", "lm_head takes rows from the caller", check_head});
  checks.push_back({"outputs.ties", "equal logits are taken by the lowest id first", check_ties});
  checks.push_back({"outputs.nan", "what is selected among NaN are ids all the same", check_nan});
  checks.push_back(
      {"outputs.adjust", "additions, repetition, mask and temperature apply in that order", check_adjustments});
  checks.push_back(
      {"outputs.adjust-unoffered", "adjustments that are not offered are refused", check_unoffered_adjustments});
  checks.push_back({"forward.in-flight", "two submits may be in flight, and run in order", check_in_flight});
  checks.push_back({"forward.dropped", "a session may be ended with a submit in flight", check_dropped});
}

}  // namespace bonsai::check
