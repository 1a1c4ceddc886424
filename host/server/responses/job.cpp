#include "host/server/responses/job.h"

#include <ctime>
#include <utility>

#include "host/server/api_response.h"

namespace bonsai::server {

ResponseJob::ResponseJob(const JobContext &context, std::shared_ptr<Responder> responder, std::shared_ptr<void> place,
                         const ChatPrompt &prompt, const ResponseRequest &request, std::string_view model,
                         ResponseStore &store)
    : TextJob(context, std::move(responder), std::move(place)),
      id_(make_id("resp_")),
      model_(model),
      created_(std::time(nullptr)),
      settings_(to_line(request.settings)),
      items_(request.store ? to_line(request.items) : ""),
      parallel_calls_(request.parallel_calls),
      store_(store),
      output_(request.form, [this](std::string_view type, const Json &fields) { event(type, fields); }),
      parser_(prompt, [this](ChatPiece kind, std::string_view text) {
        output_.add(kind, text);
        return kind != ChatPiece::kToolCall || parallel_calls_;
      }) {}

void ResponseJob::event(std::string_view type, const Json &fields) {
  if (!is_stream()) return;
  Json event = {{"type", type}, {"sequence_number", n_events_++}};
  event.update(fields);
  responder().named_event(type, to_line(event));
}

void ResponseJob::begin_stream() {
  const Json begun = response("in_progress");
  event("response.created", {{"response", begun}});
  event("response.in_progress", {{"response", begun}});
}

bool ResponseJob::push(size_t, std::string_view text) { return parser_.push(text); }

// What the parser held back goes ahead of the end.
void ResponseJob::finish() {
  message_ = parser_.finish();
  const bool is_cut = finish_reason(answer(0).generation->finish, !message_.tool_calls.empty()) == "length";
  output_.end(is_cut);
  status_ = is_cut ? "incomplete" : "completed";
}

void ResponseJob::end_in_stream(size_t) { finish(); }

void ResponseJob::end_stream() {
  const Json whole = response(status_);
  keep(whole);
  event("response." + std::string(status_), {{"response", whole}});
}

std::string ResponseJob::body() {
  finish();
  const Json whole = response(status_);
  keep(whole);
  return to_line(whole);
}

// Ahead of its end, so that the client can go on from it at once.
void ResponseJob::keep(const Json &response) {
  if (items_.empty()) return;
  Json conversation = Json::parse(items_);
  conversation.insert(conversation.end(), output_.items().begin(), output_.items().end());
  store_.keep(response, conversation);
}

void ResponseJob::fail_stream(const ApiError &error) {
  Json failed = response("failed");
  failed["error"] = {{"code", "server_error"}, {"message", error.what()}};
  event("response.failed", {{"response", std::move(failed)}});
}

Json ResponseJob::response(std::string_view status) const {
  Json response = {{"id", id_},
                   {"object", "response"},
                   {"created_at", created_},
                   {"status", status},
                   {"background", false},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", model_},
                   {"output", output_.items()}};
  if (status == "incomplete") response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response.update(Json::parse(settings_));
  response["usage"] = answer(0).generation ? usage_json() : Json();
  return response;
}

Json ResponseJob::usage_json() const {
  const Usage used = usage();
  return {
      {"input_tokens", used.prompt_tokens},
      {"input_tokens_details", {{"cached_tokens", used.cached_tokens}}},
      {"output_tokens", used.completion_tokens},
      {"output_tokens_details", {{"reasoning_tokens", reasoning_tokens(engine(), *answer(0).generation, message_)}}},
      {"total_tokens", used.prompt_tokens + used.completion_tokens}};
}

}  // namespace bonsai::server
