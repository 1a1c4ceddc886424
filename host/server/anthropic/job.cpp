#include "host/server/anthropic/job.h"

#include <utility>

#include "host/server/api_response.h"

namespace bonsai::server {

MessageJob::MessageJob(const JobContext &context, std::shared_ptr<Responder> responder, std::shared_ptr<void> place,
                       const ChatPrompt &prompt, const MessagesRequest &request, std::string_view model)
    : TextJob(context, std::move(responder), std::move(place)),
      id_(make_id("msg_")),
      model_(model),
      parallel_calls_(request.parallel_calls),
      tells_reasoning_(request.tells_reasoning),
      content_([this](std::string_view type, const Json &fields) { event(type, fields); }),
      parser_(prompt, [this](ChatPiece kind, std::string_view text) {
        if (kind != ChatPiece::kReasoning || tells_reasoning_) content_.add(kind, text);
        return kind != ChatPiece::kToolCall || parallel_calls_;
      }) {}

void MessageJob::event(std::string_view type, const Json &fields) {
  if (!is_stream()) return;
  Json event = {{"type", type}};
  event.update(fields);
  responder().named_event(type, to_line(event));
}

// What of the prompt had been computed already is known at the end only.
void MessageJob::begin_stream() {
  event("message_start", {{"message", message({{"input_tokens", prompt_tokens()}, {"output_tokens", 0}})}});
}

bool MessageJob::push(size_t, std::string_view text) { return parser_.push(text); }

// What the parser held back goes ahead of the end.
void MessageJob::finish() {
  calls_tools_ = !parser_.finish().tool_calls.empty();
  content_.end();
}

void MessageJob::end_in_stream(size_t) { finish(); }

void MessageJob::end_stream() {
  event("message_delta", {{"delta", end_json()}, {"usage", usage_json()}});
  event("message_stop", Json::object());
}

std::string MessageJob::body() {
  finish();
  Json whole = message(usage_json());
  whole.update(end_json());
  return to_line(whole);
}

void MessageJob::fail_stream(const ApiError &error) {
  responder().named_event("error", error_json(error, ErrorTypes::kAnthropic));
}

Json MessageJob::message(Json usage) const {
  return {{"id", id_},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model_},
          {"content", content_.blocks()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", std::move(usage)}};
}

Json MessageJob::end_json() const {
  const Generation &generation = *answer(0).generation;
  if (generation.finish == FinishReason::kContextFull)
    return {{"stop_reason", "model_context_window_exceeded"}, {"stop_sequence", nullptr}};
  const std::string_view reason = finish_reason(generation.finish, calls_tools_);
  if (reason == "tool_calls") return {{"stop_reason", "tool_use"}, {"stop_sequence", nullptr}};
  if (reason == "length") return {{"stop_reason", "max_tokens"}, {"stop_sequence", nullptr}};
  if (generation.stop.empty()) return {{"stop_reason", "end_turn"}, {"stop_sequence", nullptr}};
  return {{"stop_reason", "stop_sequence"}, {"stop_sequence", generation.stop}};
}

// What was there already does not count as input there.
Json MessageJob::usage_json() const {
  const Usage used = usage();
  return {{"input_tokens", used.prompt_tokens - used.cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", used.cached_tokens},
          {"output_tokens", used.completion_tokens}};
}

}  // namespace bonsai::server
