#include "tools/plugin-check/chaining_checks.h"

#include <array>
#include <deque>
#include <limits>

#include "tools/plugin-check/refusal.h"
#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

void need_chaining(const Context &context) {
  context.need_forward_with_tokens();
  skip_unless(context.has(BONSAI_FEATURE_TOKEN_CHAINING), "BONSAI_FEATURE_TOKEN_CHAINING is not declared");
}

// Greedy decoding whose tokens the host never sees in time: each is named as an output of the submit before.
void check_chaining(Context &context) {
  need_chaining(context);
  Stage stage(context, narrow_shape(context.plainest_format()));
  std::vector<int32_t> tokens = stage.tokens(9);
  const uint32_t prompt_length = 9, steps = 6;
  const std::vector<uint32_t> blocks = stage.take_blocks(prompt_length + steps);
  std::deque<Outputs> outputs;
  std::vector<uint64_t> tickets;
  for (uint32_t step = 0; step < steps; ++step) {
    Batch batch;
    batch.block_table = {blocks};
    Outputs &wanted = outputs.emplace_back(stage.outputs());
    const uint32_t last = step == 0 ? prompt_length - 1 : 0;
    for (uint32_t i = 0; step == 0 && i < prompt_length; ++i) batch.add(tokens[i], i);
    if (step > 0) batch.add(BONSAI_TOKEN_FROM_OUTPUT(1), prompt_length + step - 1);
    wanted.logits(last);
    step % 2 ? wanted.argmax(last) : wanted.top(last, 3);
    tickets.push_back(stage.session.submit(batch, wanted));
    if (step > 0) stage.session.wait(tickets[step - 1]);  // two are in flight at most
  }
  stage.session.wait(tickets.back());
  for (uint32_t step = 0; step + 1 < steps; ++step) tokens.push_back(outputs[step][1].top_ids[0]);
  const Logits expected = stage.judge(tokens);
  Comparison comparison(stage.bound);
  for (uint32_t step = 0; step < steps; ++step) {
    comparison.add(fmt::format("step {}", step), outputs[step][0].logits, expected[prompt_length - 1 + step]);
  }
  comparison.finish("chained tokens");
}

// Two sequences whose next tokens are outputs of the same submit, neither of them the last, and not in order.
void check_chaining_of_two(Context &context) {
  need_chaining(context);
  constexpr uint32_t kPrompt = 9;
  Stage stage(context, narrow_shape(context.plainest_format()));
  std::array<std::vector<int32_t>, 2> texts = {stage.tokens(kPrompt, 1), stage.tokens(kPrompt, 2)};
  Batch prompts, next;
  for (uint32_t s = 0; s < 2; ++s) prompts.block_table.push_back(stage.take_blocks(kPrompt + 1));
  next.block_table = prompts.block_table;
  for (uint32_t i = 0; i < kPrompt; ++i)
    for (uint32_t s = 0; s < 2; ++s) prompts.add(texts[s][i], i, s);
  const uint32_t last = 2 * (kPrompt - 1);
  Outputs of_prompts = stage.outputs(), of_next = stage.outputs();
  of_prompts.argmax(last + 1);
  of_prompts.argmax(0);
  of_prompts.top(last, 3);
  of_prompts.argmax(1);
  next.add(BONSAI_TOKEN_FROM_OUTPUT(2), kPrompt, 0);
  next.add(BONSAI_TOKEN_FROM_OUTPUT(0), kPrompt, 1);
  for (const uint32_t token : {0u, 1u}) of_next.logits(token);
  const uint64_t first = stage.session.submit(prompts, of_prompts), second = stage.session.submit(next, of_next);
  stage.session.wait(first);
  stage.session.wait(second);
  texts[0].push_back(of_prompts[2].top_ids[0]);
  texts[1].push_back(of_prompts[0].top_ids[0]);
  Comparison comparison(stage.bound);
  for (uint32_t s = 0; s < 2; ++s)
    comparison.add(fmt::format("behind a chained token, sequence {} of 2", s), of_next[s].logits,
                   stage.judge(texts[s])[kPrompt]);
  comparison.finish("two chained tokens");
}

// The previous submit is the last that was taken, whatever was called in between; and where that has no outputs, there
// is nothing to go on with, whatever earlier ones have selected.
void check_chaining_to_the_previous(Context &context) {
  need_chaining(context);
  constexpr uint32_t kPrompt = 9;
  Stage stage(context, narrow_shape(context.plainest_format()));
  const bonsai_backend_api &api = stage.session.api;
  std::vector<int32_t> text = stage.tokens(kPrompt);
  Batch prompt, next;
  prompt.block_table = next.block_table = {stage.take_blocks(kPrompt + 1)};
  for (uint32_t i = 0; i < kPrompt; ++i) prompt.add(text[i], i);
  next.add(BONSAI_TOKEN_FROM_OUTPUT(0), kPrompt);
  Outputs of_prompt = stage.outputs(), of_next = stage.outputs();
  of_prompt.argmax(kPrompt - 1);
  of_next.logits(0);
  stage.session.run(prompt, of_prompt);
  text.push_back(of_prompt[0].top_ids[0]);

  Batch other;
  other.block_table = {stage.take_blocks(1)};
  other.add(1, 0);
  bonsai_batch view = other.view();
  const std::vector<float> in(stage.config().hidden, 0.5f);
  Outputs of_other = stage.outputs();
  of_other.argmax(0);
  stage.session.encode(0, view, in.data(), nullptr);
  bonsai_error error = empty_error();
  expect_ok("lm_head", api.lm_head(stage.session.handle, nullptr, 1, of_other.data(), 1, &error), error);
  const uint32_t no_sequence = 1;
  view.sequences = &no_sequence;
  uint64_t ticket = 0;
  const bonsai_status status = api.forward_submit(stage.session.handle, &view, nullptr, 0, &ticket, nullptr);
  expect(status == BONSAI_INVALID_ARGUMENT, "forward_submit with a sequence that does not exist: status {}",
         status_name(status));
  Comparison comparison(stage.bound);
  stage.session.run(next, of_next);
  comparison.add("behind a chained token, with other calls ahead of it", of_next[0].logits, stage.judge(text)[kPrompt]);
  comparison.finish("a token of the previous submit");

  stage.session.run(prompt, of_prompt);
  stage.session.run(other, stage.outputs());
  view = next.view();
  expect_refused("forward_submit with a token of the last submit but one, behind one without outputs",
                 Expected::kInvalid, [&](bonsai_error *refused) {
                   return api.forward_submit(stage.session.handle, &view, nullptr, 0, &ticket, refused);
                 });
}

// Prompts of some sequences, their last tokens' outputs, and a batch that goes on with what those select.
class ChainedPrompts {
 public:
  static constexpr uint32_t kPrompt = 9;

  ChainedPrompts(Stage &stage, uint32_t n_sequences) : stage_(stage), n_(n_sequences) {
    for (uint32_t s = 0; s < n_; ++s) {
      texts_.push_back(stage.tokens(kPrompt, 1 + s));
      prompts_.block_table.push_back(stage.take_blocks(kPrompt + 1));
      next_.add(BONSAI_TOKEN_FROM_OUTPUT(s), kPrompt, s);
    }
    next_.block_table = prompts_.block_table;
    for (uint32_t i = 0; i < kPrompt; ++i)
      for (uint32_t s = 0; s < n_; ++s) prompts_.add(texts_[s][i], i, s);
  }

  uint32_t last_token(uint32_t sequence) const { return (kPrompt - 1) * n_ + sequence; }

  // What each prompt goes on with if nothing is adjusted.
  std::vector<int32_t> winners() {
    Outputs outputs = stage_.outputs();
    for (uint32_t s = 0; s < n_; ++s) outputs.argmax(last_token(s));
    stage_.session.run(prompts_, outputs);
    std::vector<int32_t> ids;
    for (uint32_t s = 0; s < n_; ++s) {
      const int32_t id = outputs[s].top_ids[0];
      expect(id >= 0 && static_cast<uint32_t>(id) < stage_.config().vocab, "argmax selects {}, of a vocabulary of {}",
             id, stage_.config().vocab);
      ids.push_back(id);
    }
    return ids;
  }

  // `selected` has an output for each sequence, in order.
  void compare(const Outputs &selected) {
    Outputs of_next = stage_.outputs();
    for (uint32_t s = 0; s < n_; ++s) of_next.logits(s);
    const uint64_t first = stage_.session.submit(prompts_, selected), second = stage_.session.submit(next_, of_next);
    stage_.session.wait(first);
    stage_.session.wait(second);
    Comparison comparison(stage_.bound);
    for (uint32_t s = 0; s < n_; ++s) {
      std::vector<int32_t> text = texts_[s];
      text.push_back(selected[s].top_ids[0]);
      comparison.add(fmt::format("behind a chained token that adjustments chose, sequence {} of {}", s, n_),
                     of_next[s].logits, stage_.judge(text)[kPrompt]);
    }
    comparison.finish("tokens that adjustments chose, chained");
  }

 private:
  Stage &stage_;
  const uint32_t n_;
  std::vector<std::vector<int32_t>> texts_;
  Batch prompts_, next_;
};

// What an output selects, it selects among adjusted logits: the likeliest token of each prompt is excluded, by an
// adjustment under ARGMAX and TOP_K, and by a mask.
void check_chaining_adjusted(Context &context) {
  need_chaining(context);
  skip_unless(context.has(BONSAI_FEATURE_ADJUST), "BONSAI_FEATURE_ADJUST is not declared");
  Stage stage(context, narrow_shape(context.plainest_format()));
  ChainedPrompts prompts(stage, 3);
  const std::vector<int32_t> winners = prompts.winners();
  constexpr float kExcluded = -std::numeric_limits<float>::infinity(), kUnchanged = 1;
  Outputs selected = stage.outputs();
  for (uint32_t s = 0; s < 2; ++s) {
    bonsai_output &output = s == 0 ? selected.argmax(prompts.last_token(s)) : selected.top(prompts.last_token(s), 3);
    output.n_adjustments = 1;
    output.adjust_ids = &winners[s];
    output.adjust_add = &kExcluded;
    output.adjust_repeat = &kUnchanged;
  }
  std::vector<uint32_t> mask((stage.config().vocab + 31) / 32, 0xFFFFFFFFu);
  mask[static_cast<uint32_t>(winners[2]) / 32] &= ~(1u << winners[2] % 32);
  selected.argmax(prompts.last_token(2)).mask = mask.data();
  prompts.compare(selected);
  for (uint32_t s = 0; s < 3; ++s)
    expect(selected[s].top_ids[0] != winners[s], "token {} is selected, which is excluded", winners[s]);
}

}  // namespace

void add_chaining_checks(std::vector<Check> &checks) {
  checks.push_back({"forward.chaining", "a token may be an output of the submit before", check_chaining});
  checks.push_back({"forward.chaining-two", "tokens may be any outputs of the submit before", check_chaining_of_two});
  checks.push_back({"forward.chaining-previous",
                    "the submit before is the last that was taken, and the only one that tokens may be outputs of",
                    check_chaining_to_the_previous});
  checks.push_back({"forward.chaining-adjusted", "a chained token is the one that the adjusted logits select",
                    check_chaining_adjusted});
}

}  // namespace bonsai::check
