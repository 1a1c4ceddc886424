#include "host/server/responses/request.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "core/base/shortest.h"
#include "core/base/utf8.h"
#include "host/server/responses/items.h"
#include "host/server/responses/tools.h"
#include "host/server/text_fields.h"

namespace bonsai::server {
namespace {

// ---------------------------------------------------------------------------------------------------------------------
// The conversation

// What clients call by its id, of all of which together no more is read than a conversation may have.
class Kept {
 public:
  explicit Kept(const ResponseStore &store) : store_(store) {}

  Json conversation(const JsonFields &fields) {
    const std::string id = fields.required_text("previous_response_id");
    return read(store_.conversation(id), fields.path("previous_response_id"), "response", id);
  }
  Json item(const JsonFields &fields) {
    const std::string id = fields.required_text("id");
    return read(store_.item(id), fields.path("id"), "item", id);
  }

 private:
  Json read(const std::optional<std::string> &text, const std::string &path, std::string_view what,
            const std::string &id) {
    if (!text)
      throw ApiError(fmt::format("{}: there is no {} {}, or it is not kept any more: send what it says instead", path,
                                 what, bonsai::quoted(id)),
                     404);
    bytes_ += text->size();
    if (bytes_ > store_.most())
      throw ApiError(fmt::format("{}: the conversation is longer than {} bytes", path, store_.most()));
    return Json::parse(*text);
  }

  const ResponseStore &store_;
  size_t bytes_ = 0;
};

// A text is a message of the user's, and a reference the item that it refers to.
Json read_input(const JsonFields &fields, Kept &kept) {
  const Json &input = fields.required("input");
  if (input.is_string()) return Json::array({{{"type", "message"}, {"role", "user"}, {"content", input}}});
  if (!input.is_array()) fields.fail("input", "a text or an array of items", input);
  Json items = Json::array();
  for_each(input, "input", [&](const Json &item, const std::string &where) {
    const JsonFields inner = object_at(item, where);
    items.push_back(inner.text("type") == "item_reference" ? kept.item(inner) : item);
  });
  return items;
}

void read_conversation(const JsonFields &fields, const ResponseStore &store, ResponseRequest &request) {
  Kept kept(store);
  if (fields.find("previous_response_id") != nullptr) request.items = kept.conversation(fields);
  ItemReader reader;
  for_each(request.items, "previous_response_id",
           [&](const Json &item, const std::string &where) { reader.add(item, where); });
  const Json input = read_input(fields, kept);
  for_each(input, "input", [&](const Json &item, const std::string &where) { reader.add(item, where); });
  request.items.insert(request.items.end(), input.begin(), input.end());
  request.messages = std::move(reader).messages();
  if (const auto instructions = fields.text("instructions"); instructions && !instructions->empty())
    request.messages.insert(request.messages.begin(), {.role = "system", .content = *instructions});
  if (request.messages.empty()) throw ApiError("input: expected at least one item, found none");
}

// ---------------------------------------------------------------------------------------------------------------------
// The rest

void read_text_format(const JsonFields &fields, TextRequest &request) {
  const Json *text = fields.find("text");
  if (text == nullptr) return;
  read_schema(object_at(*text, "text"), "format", SchemaPlace::kFormat, request);
}

// What is said and what is thought are one row of tokens here, and a message's logprobs would be those of both.
void refuse_logprobs(const JsonFields &fields) {
  for (const char *name : {"logprobs", "top_logprobs"}) fields.refuse(name);
  const Json *include = fields.find("include");
  if (include == nullptr) return;
  if (!include->is_array()) fields.fail("include", "an array", *include);
  for (const Json &what : *include)
    if (what == "message.output_text.logprobs")
      throw ApiError("include: message.output_text.logprobs is not supported (/v1/chat/completions has logprobs)");
}

void refuse_unknown_of_responses(const JsonFields &fields) {
  for (const char *name : {"background", "conversation", "prompt"}) fields.refuse(name);
  fields.refuse("n", 1);
  fields.refuse("truncation", "disabled");
  refuse_logprobs(fields);
}

// OpenAI's models sum up what they thought for a client that asks for it.
bool wants_summary(const JsonFields &fields) {
  const Json *reasoning = fields.find("reasoning");
  if (reasoning == nullptr) return false;
  const JsonFields inner = object_at(*reasoning, "reasoning");
  for (const char *name : {"summary", "generate_summary"})
    if (const auto summary = inner.text(name)) return *summary != "none";
  return false;
}

// With OpenAI's defaults; the tools have been read.
Json read_settings(const JsonFields &fields, const ResponseRequest &request) {
  const auto repeated = [&](const char *name, const Json &otherwise) {
    const Json *value = fields.find(name);
    return value == nullptr ? otherwise : *value;
  };
  const SamplingOptions &sampling = request.options.sampling;
  return {{"instructions", repeated("instructions", nullptr)},
          {"max_output_tokens", repeated("max_output_tokens", nullptr)},
          {"metadata", repeated("metadata", Json::object())},
          {"parallel_tool_calls", request.parallel_calls},
          {"previous_response_id", repeated("previous_response_id", nullptr)},
          {"reasoning", repeated("reasoning", {{"effort", nullptr}, {"summary", nullptr}})},
          {"store", request.store},
          {"temperature", shortest(sampling.temperature)},
          {"text", repeated("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", repeated("tool_choice", "auto")},
          {"tools", request.settings["tools"]},
          {"top_p", shortest(sampling.top_p)},
          {"truncation", "disabled"},
          {"user", repeated("user", nullptr)}};
}

}  // namespace

ResponseRequest read_response_request(std::string_view body, const GenerateOptions &defaults,
                                      const ResponseStore &store) {
  const Json json = parse_body(body);
  const JsonFields fields(json, "");
  ResponseRequest request;
  request.options = defaults;
  refuse_unknown_of_responses(fields);
  read_text_request(fields, request);
  read_text_format(fields, request);
  request.options.max_tokens =
      read_most_tokens(fields, {"max_output_tokens", "max_completion_tokens", "max_tokens", "n_predict"}, 1)
          .value_or(request.options.max_tokens);
  request.store = fields.flag("store").value_or(true);
  read_response_tools(fields, request);
  request.form.has_summary = wants_summary(fields);
  read_chat_options(fields, request.chat);
  read_conversation(fields, store, request);
  request.settings = read_settings(fields, request);
  return request;
}

}  // namespace bonsai::server
