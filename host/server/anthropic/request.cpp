#include "host/server/anthropic/request.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "host/server/anthropic/conversation.h"
#include "host/server/api_tools.h"
#include "host/server/text_fields.h"

namespace bonsai::server {
namespace {

// A tool and a choice in the form that chat completions have them in.
Json chat_tool(const Json &tool, const std::string &where) {
  const JsonFields fields = object_at(tool, where);
  const std::string type = fields.text("type").value_or("custom");
  if (type != "custom")
    throw ApiError(fmt::format("{}: expected custom, found {}", fields.path("type"), bonsai::quoted(type)));
  Json function = {{"name", fields.required_text("name")}};
  if (auto description = fields.text("description")) function["description"] = *std::move(description);
  if (const Json *schema = fields.find("input_schema")) {
    if (!schema->is_object()) fields.fail("input_schema", "an object", *schema);
    function["parameters"] = *schema;
  }
  return {{"type", "function"}, {"function", std::move(function)}};
}

Json chat_choice(const JsonFields &choice) {
  const std::string type = choice.text("type").value_or("");
  if (type == "auto" || type == "none") return type;
  if (type == "any") return "required";
  if (type != "tool")
    throw ApiError(
        fmt::format("{}: expected auto, any, tool or none, found {}", choice.path("type"), bonsai::quoted(type)));
  return {{"type", "function"}, {"function", {{"name", choice.required_text("name")}}}};
}

void read_anthropic_tools(const JsonFields &fields, ChatRequest &request) {
  Json chat = Json::object();
  std::vector<std::string> parameters;
  if (const Json *tools = fields.find("tools")) {
    if (!tools->is_array()) fields.fail("tools", "an array", *tools);
    chat["tools"] = Json::array();
    for_each(*tools, "tools", [&](const Json &tool, const std::string &where) {
      chat["tools"].push_back(chat_tool(tool, where));
      parameters.push_back(where + ".input_schema");
    });
  }
  if (const Json *choice = fields.find("tool_choice")) {
    const JsonFields inner = object_at(*choice, "tool_choice");
    chat["tool_choice"] = chat_choice(inner);
    chat["parallel_tool_calls"] = !inner.flag("disable_parallel_tool_use").value_or(false);
  }
  read_tools(JsonFields(chat, ""), request, parameters);
}

// "output_format" is what it was called first.
void read_output_format(const JsonFields &fields, TextRequest &request) {
  read_schema(fields, "output_format", SchemaPlace::kFormat, request);
  const Json *config = fields.find("output_config");
  if (config == nullptr) return;
  read_schema(object_at(*config, "output_config"), "format", SchemaPlace::kFormat, request);
}

bool tells_reasoning(const JsonFields &fields) {
  const Json *thinking = fields.find("thinking");
  return thinking == nullptr || object_at(*thinking, "thinking").text("display") != "omitted";
}

// Conversations that the server keeps are for its clients to replace, once they are told so.
void refuse_unknown_of_messages(const JsonFields &fields) {
  if (const Json *thread = fields.find("thread"); thread != nullptr && *thread != false)
    throw ApiError("thread: not supported, send the whole conversation", 400, "thread_unsupported_request");
  for (const char *name : {"mcp_servers", "container", "logprobs", "top_logprobs"}) fields.refuse(name);
  fields.refuse("n", 1);
}

}  // namespace

MessagesRequest read_messages_request(std::string_view body, const GenerateOptions &defaults) {
  const Json json = parse_body(body);
  const JsonFields fields(json, "");
  MessagesRequest request;
  request.options = defaults;
  refuse_unknown_of_messages(fields);
  read_text_request(fields, request);
  read_stops(fields, "stop_sequences", request.options);
  read_output_format(fields, request);
  request.options.max_tokens = read_most_tokens(fields, {"max_tokens"}, 0).value_or(request.options.max_tokens);
  read_anthropic_tools(fields, request);
  read_chat_options(fields, request.chat);
  request.tells_reasoning = tells_reasoning(fields);
  request.messages = read_anthropic_messages(fields);
  return request;
}

}  // namespace bonsai::server
