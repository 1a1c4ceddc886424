#include "host/server/choices_job.h"

#include <utility>

namespace bonsai::server {

ChoicesJob::ChoicesJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
                       std::shared_ptr<void> place)
    : TextJob(context, std::move(responder), std::move(place)), head_(std::move(head)) {}

void ChoicesJob::begin_stream() {
  for (size_t i = 0; i < n_answers(); ++i)
    if (auto delta = first_delta(i)) send(i, *std::move(delta));
}

void ChoicesJob::end_in_stream(size_t answer) {
  Json delta = last_delta(answer);
  responder().event(answer_json(head_, Json::array({with_end(event_choice(answer, std::move(delta)), answer)}), {}));
}

void ChoicesJob::end_stream() {
  if (head_.announces_usage) responder().event(answer_json(head_, Json::array(), whole_usage()));
  responder().event("[DONE]");
}

std::string ChoicesJob::body() {
  Json choices = Json::array();
  for (size_t i = 0; i < n_answers(); ++i) choices.push_back(with_end(choice(i), i));
  return answer_json(head_, std::move(choices), whole_usage());
}

void ChoicesJob::fail_stream(const ApiError &error) { responder().event(error_json(error)); }

void ChoicesJob::send(size_t answer, Json delta) {
  Json choice = event_choice(answer, std::move(delta));
  choice["finish_reason"] = nullptr;
  responder().event(answer_json(head_, Json::array({std::move(choice)}), {}));
}

// All logprobs of a stream come with its last event: tokens are not text, and text comes before all its tokens do.
Json ChoicesJob::with_end(Json choice, size_t answer) {
  choice["logprobs"] = top_logprobs() ? logprobs_json(answer, *top_logprobs()) : Json();
  choice["finish_reason"] = finish_reason_of(answer);
  return choice;
}

// ---------------------------------------------------------------------------------------------------------------------
// Chat

ChatJob::ChatJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
                 std::shared_ptr<void> place, const ChatPrompt &prompt, const ChatRequest &request)
    : ChoicesJob(context, std::move(responder), std::move(head), std::move(place)),
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
  return chat_logprobs_json(engine(), told_logprobs(engine(), *answer(i).generation), n_top);
}

Usage ChatJob::whole_usage() {
  Usage whole = usage();
  whole.reasoning_tokens = 0;
  for (size_t i = 0; i < n_answers(); ++i)
    *whole.reasoning_tokens += reasoning_tokens(engine(), *answer(i).generation, message(i));
  return whole;
}

Json ChatJob::event_choice(size_t answer, Json delta) const {
  return {{"index", answer}, {"delta", std::move(delta)}, {"logprobs", nullptr}};
}

// ---------------------------------------------------------------------------------------------------------------------
// Completions

CompletionJob::CompletionJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
                             std::shared_ptr<void> place, std::vector<Echo> echoes)
    : ChoicesJob(context, std::move(responder), std::move(head), std::move(place)), echoes_(std::move(echoes)) {}

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
