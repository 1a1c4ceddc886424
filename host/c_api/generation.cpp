#include "host/c_api/generation.h"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace bonsai::c_api {
namespace {

static_assert(BONSAI_FINISH_LENGTH == static_cast<int>(FinishReason::kLength));
static_assert(BONSAI_FINISH_END_OF_TEXT == static_cast<int>(FinishReason::kEndOfText));
static_assert(BONSAI_FINISH_STOP_STRING == static_cast<int>(FinishReason::kStopString));
static_assert(BONSAI_FINISH_CONTEXT_FULL == static_cast<int>(FinishReason::kContextFull));
static_assert(BONSAI_FINISH_CANCELLED == static_cast<int>(FinishReason::kCancelled));

// Log-probabilities as C reads them, with the memory that they point into.
class LogProbTable {
 public:
  LogProbTable() = default;
  explicit LogProbTable(std::span<const TokenLogProbs> given) {
    size_t n_top = 0;
    for (const TokenLogProbs &place : given) n_top += place.top.size();
    likeliest_.reserve(n_top);  // places point into it
    places_.reserve(given.size());
    for (const TokenLogProbs &place : given) {
      places_.push_back({entry(place.chosen), likeliest_.data() + likeliest_.size(), place.top.size()});
      for (const LogProb &top : place.top) likeliest_.push_back(entry(top));
    }
  }

  const bonsai_token_logprobs *data() const { return places_.empty() ? nullptr : places_.data(); }
  size_t size() const { return places_.size(); }

 private:
  static bonsai_logprob entry(const LogProb &given) { return {given.logprob, given.token, 0}; }

  std::vector<bonsai_logprob> likeliest_;
  std::vector<bonsai_token_logprobs> places_;
};

// With the memory that its fields point into.
struct OwnedGeneration : bonsai_generation {
  explicit OwnedGeneration(Generation made)
      : bonsai_generation{},
        generation(std::move(made)),
        of_tokens(generation.logprobs),
        of_prompt(generation.prompt_logprobs) {
    if (generation.end_logprobs) of_end = LogProbTable({&*generation.end_logprobs, 1});
    const GenerationStats &stats = generation.stats;
    struct_size = sizeof(bonsai_generation);
    finish = static_cast<bonsai_finish>(generation.finish);
    set_texts(generation.text);
    tokens = generation.tokens.data();
    n_tokens = generation.tokens.size();
    failed_over = stats.failed_over.empty() ? nullptr : stats.failed_over.c_str();
    seed = stats.seed;
    prompt_tokens = stats.prompt_tokens;
    prompt_seconds = stats.prompt_seconds;
    decode_steps = stats.decode_steps;
    decode_passes = stats.decode_passes;
    decode_seconds = stats.decode_seconds;
    logprobs = of_tokens.data();
    end_logprobs = of_end.data();
    prompt_logprobs = of_prompt.data();
    n_prompt_logprobs = of_prompt.size();
  }
  explicit OwnedGeneration(ChatReply reply) : OwnedGeneration(std::move(reply.generation)) {
    message = std::move(reply.message);
    set_texts(message.content);
    reused_tokens = reply.reused_tokens;
  }
  OwnedGeneration(const OwnedGeneration &) = delete;
  OwnedGeneration &operator=(const OwnedGeneration &) = delete;

 private:
  void set_texts(const std::string &said) {
    text = said.c_str();
    n_bytes = said.size();
    reasoning = message.reasoning.c_str();
    n_reasoning_bytes = message.reasoning.size();
    tool_calls = message.tool_calls.c_str();
    n_tool_calls_bytes = message.tool_calls.size();
  }

  Generation generation;
  ChatMessage message;
  LogProbTable of_tokens, of_end, of_prompt;
};

}  // namespace

const bonsai_generation *hand_over(Generation generation) { return new OwnedGeneration(std::move(generation)); }
const bonsai_generation *hand_over(ChatReply reply) { return new OwnedGeneration(std::move(reply)); }
void end(const bonsai_generation *generation) { delete static_cast<const OwnedGeneration *>(generation); }

bool pass_on(bonsai_text_fn receive, void *context, bonsai_piece piece, std::string_view text) {
  return receive == nullptr || receive(context, piece, std::string(text).c_str(), text.size()) == 0;
}

bonsai_piece piece_of(ChatPiece kind) {
  switch (kind) {
    case ChatPiece::kReasoning:
      return BONSAI_PIECE_REASONING;
    case ChatPiece::kToolCall:
      return BONSAI_PIECE_TOOL_CALL;
    case ChatPiece::kContent:
      break;
  }
  return BONSAI_PIECE_TEXT;
}

}  // namespace bonsai::c_api
