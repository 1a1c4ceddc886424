#include "host/server/text_job.h"

#include <algorithm>
#include <utility>

#include "host/engine/reused_tokens.h"
#include "host/server/api_error.h"

namespace bonsai::server {
namespace {

// As if the text had ended ahead of its first token.
Generation without_tokens(Generation generation) {
  generation.text.clear();
  generation.tokens.clear();
  generation.logprobs.clear();
  generation.end_logprobs.reset();
  if (generation.finish != FinishReason::kCancelled) generation.finish = FinishReason::kLength;
  return generation;
}

}  // namespace

TextJob::TextJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
                 std::shared_ptr<void> place)
    : context_(context),
      responder_(std::move(responder)),
      head_(std::move(head)),
      place_(std::move(place)),
      on_gone_(responder_->gone(), [this] { stop_.request_stop(); }) {}

// What the batch says meanwhile waits until all of them are under way, or none is.
void TextJob::start(const TextRequest &request, const std::vector<std::vector<int32_t>> &prompts) {
  const std::lock_guard lock(mutex_);
  is_stream_ = request.stream;
  wants_nothing_ = request.options.max_tokens == 0;
  head_.announces_usage = request.stream && request.include_usage;
  top_logprobs_ = request.top_logprobs;
  for (const auto &prompt : prompts) prompt_lengths_.push_back(prompt.size());
  for (size_t i = 0; i < prompts.size() * request.n; ++i) answers_.push_back({.prompt = i / request.n});
  n_left_ = answers_.size();
  try {
    for (size_t i = 0; i < answers_.size(); ++i) start_answer(i, request, prompts[answers_[i].prompt]);
  } catch (...) {
    has_failed_ = true;
    stop_.request_stop();
    place_.reset();
    throw;
  }
  if (!is_stream_) return;
  responder_->begin_events();
  for (size_t i = 0; i < answers_.size(); ++i)
    if (auto delta = first_delta(i)) send(i, *std::move(delta));
}

// Answers to one prompt differ, also where a seed is given; how likely the prompt is, the first one tells for all.
void TextJob::start_answer(size_t answer, const TextRequest &request, std::span<const int32_t> prompt) {
  GenerateOptions options = request.options;
  options.cancel = stop_.get_token();
  if (wants_nothing_) options.max_tokens = 1;
  if (options.sampling.seed) *options.sampling.seed += answer % request.n;
  if (!is_first_of_prompt(answer)) options.prompt_logprobs_from.reset();
  const auto self = shared_from_this();
  naming("prompt", answers_[answer].prompt, prompt_lengths_.size(), [&] {
    context_.batch.start_tokens(
        prompt, options, [self, answer](std::string_view text) { return self->on_text(answer, text); },
        [self, answer](Generation generation, const std::exception_ptr &error) {
          self->on_done(answer, std::move(generation), error);
        });
  });
}

bool TextJob::on_text(size_t answer, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (has_failed_) return false;
  return wants_nothing_ || push(answer, text);
}

void TextJob::on_done(size_t answer, Generation generation, const std::exception_ptr &error) {
  const std::lock_guard lock(mutex_);
  if (has_failed_) return;
  try {
    if (error) std::rethrow_exception(error);
    if (wants_nothing_) generation = without_tokens(std::move(generation));
    answers_[answer].generation = std::move(generation);
    count(answer);
    if (is_stream_ && !top_logprobs_) end_event(answer);
    if (--n_left_ == 0) end();
  } catch (...) {
    fail(std::current_exception());
  }
}

void TextJob::count(size_t answer) {
  const uint64_t n_prompt = is_first_of_prompt(answer) ? prompt_lengths_[answers_[answer].prompt] : 0;
  context_.metrics.count_text(n_prompt, n_prompt == 0 ? 0 : reused_tokens(answer), *answers_[answer].generation);
}

// Whole answers are long, and logprobs make them a hundred times as long.
void TextJob::end() {
  if (is_stream_ && !top_logprobs_) return complete();
  const bool taken = context_.writer.try_push([self = shared_from_this()] {
    const std::lock_guard lock(self->mutex_);
    try {
      self->complete();
    } catch (...) {
      self->fail(std::current_exception());
    }
  });
  if (!taken) throw ApiError("too many answers are waiting to be written: try again later", 503);
}

void TextJob::end_event(size_t answer) {
  Json delta = last_delta(answer);
  responder_->event(answer_json(head_, Json::array({with_end(event_choice(answer, std::move(delta)), answer)}), {}));
}

void TextJob::send(size_t answer, Json delta) {
  Json choice = event_choice(answer, std::move(delta));
  choice["finish_reason"] = nullptr;
  responder_->event(answer_json(head_, Json::array({std::move(choice)}), {}));
}

// All logprobs of a stream come with its last event: tokens are not text, and text comes before all its tokens do.
Json TextJob::with_end(Json choice, size_t answer) {
  choice["logprobs"] = top_logprobs_ ? logprobs_json(answer, *top_logprobs_) : Json();
  choice["finish_reason"] = finish_reason_of(answer);
  return choice;
}

// Its place is free before its client can know: the next request of one that asks one after the other finds it so.
void TextJob::complete() {
  place_.reset();
  if (is_stream_) {
    for (size_t i = 0; top_logprobs_ && i < answers_.size(); ++i) end_event(i);
    if (head_.announces_usage) responder_->event(answer_json(head_, Json::array(), usage()));
    responder_->event("[DONE]");
    return responder_->end();
  }
  Json choices = Json::array();
  for (size_t i = 0; i < answers_.size(); ++i) choices.push_back(with_end(choice(i), i));
  responder_->reply({.body = answer_json(head_, std::move(choices), usage()) + "\n"});
}

// The other answers to the request end with it. Nothing may be thrown at the batch: where there is no memory to say so
// either, the responder tells the client when it goes.
void TextJob::fail(const std::exception_ptr &error) noexcept try {
  has_failed_ = true;
  stop_.request_stop();
  place_.reset();
  try {
    std::rethrow_exception(error);
  } catch (const std::exception &what) {
    const ApiError told = to_api_error(what);
    if (!is_stream_) return responder_->reply(error_reply(told));
    responder_->event(error_json(told));
    responder_->end();
  }
} catch (...) {
}

// A prompt counts once, however many answers it has.
bool TextJob::is_first_of_prompt(size_t i) const { return i == 0 || answers_[i].prompt != answers_[i - 1].prompt; }

uint64_t TextJob::reused_tokens(size_t i) const {
  return host::reused_tokens(*answers_[i].generation, prompt_lengths_[answers_[i].prompt]);
}

Usage TextJob::usage() const {
  Usage usage;
  for (const size_t length : prompt_lengths_) usage.prompt_tokens += length;
  for (size_t i = 0; i < answers_.size(); ++i) {
    usage.completion_tokens += answers_[i].generation->tokens.size();
    if (is_first_of_prompt(i)) usage.cached_tokens += reused_tokens(i);
  }
  return usage;
}

// ---------------------------------------------------------------------------------------------------------------------
// Chat

ChatJob::ChatJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
                 std::shared_ptr<void> place, const ChatPrompt &prompt, const ChatRequest &request)
    : TextJob(context, std::move(responder), std::move(head), std::move(place)),
      parallel_calls_(request.parallel_calls),
      must_call_(!request.call_schema.empty()) {
  for (uint32_t i = 0; i < request.n; ++i) {
    const auto tell_client = [this, i](ChatPiece kind, std::string_view text) { return tell(i, kind, text); };
    replies_.push_back({ChatAnswer(prompt, tell_client)});
  }
}

std::optional<Json> ChatJob::first_delta(size_t) {
  return Json{{"role", "assistant"}, {"content", must_call_ ? Json() : Json("")}};
}

bool ChatJob::push(size_t answer, std::string_view text) { return replies_[answer].parser.push(text); }

bool ChatJob::tell(size_t answer, ChatPiece kind, std::string_view text) {
  if (kind == ChatPiece::kToolCall) return tell_call(answer, text);
  if (is_stream()) send(answer, {{kind == ChatPiece::kReasoning ? "reasoning_content" : "content", text}});
  return true;
}

// False behind the only one that is wanted.
bool ChatJob::tell_call(size_t answer, std::string_view text) {
  const size_t index = replies_[answer].n_calls++;
  if (is_stream()) {
    Json call = call_json(Json::parse(text));
    call["index"] = index;
    send(answer, {{"tool_calls", Json::array({std::move(call)})}});
  }
  return parallel_calls_;
}

// Brings what the parser held back, which goes ahead of the end.
const ChatMessage &ChatJob::message(size_t answer) {
  Reply &reply = replies_[answer];
  if (!reply.message) reply.message = reply.parser.finish();
  return *reply.message;
}

Json ChatJob::last_delta(size_t answer) {
  message(answer);
  return Json::object();
}

Json ChatJob::choice(size_t answer) { return {{"index", answer}, {"message", message_json(message(answer))}}; }

std::string_view ChatJob::finish_reason_of(size_t i) {
  return finish_reason(answer(i).generation->finish, !message(i).tool_calls.empty());
}

Json ChatJob::logprobs_json(size_t i, uint32_t n_top) const {
  return chat_logprobs_json(engine(), answer(i).generation->logprobs, n_top);
}

Json ChatJob::event_choice(size_t answer, Json delta) const {
  return {{"index", answer}, {"delta", std::move(delta)}, {"logprobs", nullptr}};
}

// ---------------------------------------------------------------------------------------------------------------------
// Completions

CompletionJob::CompletionJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
                             std::shared_ptr<void> place, std::vector<Echo> echoes)
    : TextJob(context, std::move(responder), std::move(head), std::move(place)), echoes_(std::move(echoes)) {}

// Null: none.
const Echo *CompletionJob::echo(size_t i) const { return echoes_.empty() ? nullptr : &echoes_[answer(i).prompt]; }

std::optional<Json> CompletionJob::first_delta(size_t answer) {
  if (echoes_.empty()) return std::nullopt;
  return Json(echo(answer)->text);
}

bool CompletionJob::push(size_t answer, std::string_view text) {
  if (is_stream()) send(answer, text);
  return true;
}

Json CompletionJob::choice(size_t i) {
  const std::string &text = answer(i).generation->text;
  return {{"index", i}, {"text", echo(i) == nullptr ? text : echo(i)->text + text}};
}

std::string_view CompletionJob::finish_reason_of(size_t i) {
  return finish_reason(answer(i).generation->finish, false);
}

Json CompletionJob::logprobs_json(size_t i, uint32_t n_top) const {
  size_t first = i;
  while (!is_first_of_prompt(first)) --first;
  return completion_logprobs_json(engine(), *answer(i).generation, n_top, echo(i),
                                  answer(first).generation->prompt_logprobs);
}

Json CompletionJob::event_choice(size_t answer, Json delta) const {
  return {{"index", answer}, {"text", std::move(delta)}, {"logprobs", nullptr}};
}

}  // namespace bonsai::server
