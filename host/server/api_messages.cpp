#include "host/server/api_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "host/server/api_tools.h"

namespace bonsai::server {
namespace {

std::string read_part(const Json &part, const std::string &where, std::initializer_list<std::string_view> types) {
  const JsonFields fields = object_at(part, where);
  const std::string type = fields.text("type").value_or("");
  if (std::find(types.begin(), types.end(), type) == types.end())
    throw ApiError(fmt::format("{}: expected {}, found {}", fields.path("type"), *types.begin(), bonsai::quoted(type)));
  return fields.required_text(type == "refusal" ? "refusal" : "text");
}

// A text, or its parts. Those who answer need not have said anything; what the assistant refused, it said.
std::string read_content(const JsonFields &fields, std::string_view role) {
  const Json *content = fields.find("content");
  if (content == nullptr) {
    if (role != "assistant" && role != "tool") throw ApiError(fmt::format("{} is missing", fields.path("content")));
    return fields.text("refusal").value_or("");
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) fields.fail("content", "a string or an array of texts", *content);
  return read_parts(*content, fields.path("content"), {"text", "refusal"});
}

// OpenAI's {"id", "type": "function", "function": {"name", "arguments"}}, which is what templates expect, too.
Json read_call(const Json &call, const std::string &where) {
  std::string name = read_function_name(call, where);
  const JsonFields fields(call, where + ".");
  Json read = Json::object();
  if (auto id = fields.text("id")) read["id"] = *std::move(id);
  read["type"] = fields.text("type").value_or("function");
  read["function"] = {{"name", std::move(name)},
                      {"arguments", read_arguments({call["function"], where + ".function."})}};
  return read;
}

std::string read_calls(const JsonFields &fields) {
  const Json *calls = fields.find("tool_calls");
  if (calls == nullptr) return "";
  if (!calls->is_array()) fields.fail("tool_calls", "an array", *calls);
  Json all = Json::array();
  for_each(*calls, fields.path("tool_calls"),
           [&](const Json &call, const std::string &where) { all.push_back(read_call(call, where)); });
  return all.empty() ? "" : all.dump();
}

// Of the message of a tool.
std::string read_answered_call(const JsonFields &fields) {
  Json call = Json::object();
  if (auto id = fields.text("tool_call_id")) call["id"] = *std::move(id);
  if (auto name = fields.text("name")) call["name"] = *std::move(name);
  return call.empty() ? "" : Json::array({std::move(call)}).dump();
}

// What came before tools: without its calls and results a conversation would be another.
void refuse_functions(const JsonFields &fields, std::string_view role) {
  if (role == "function") throw ApiError(fmt::format("{}: expected tool, found 'function'", fields.path("role")));
  if (fields.find("function_call") != nullptr)
    throw ApiError(fmt::format("{}: not supported, expected tool_calls", fields.path("function_call")));
}

// "developer" is what OpenAI calls "system" by now.
ChatMessage read_message(const Json &json, const std::string &where) {
  const JsonFields fields = object_at(json, where);
  const std::string role = fields.required_text("role");
  refuse_functions(fields, role);
  return {.role = role == "developer" ? "system" : role,
          .content = read_content(fields, role),
          .reasoning = fields.text("reasoning_content").value_or(""),
          .tool_calls = role == "tool" ? read_answered_call(fields) : read_calls(fields)};
}

// Of the calls in a message, or of the one that it answers; empty where a call has none.
std::vector<std::string> ids_of_calls(const ChatMessage &message) {
  std::vector<std::string> ids;
  if (message.tool_calls.empty()) return ids;
  for (const Json &call : Json::parse(message.tool_calls)) ids.push_back(JsonFields(call, "").text("id").value_or(""));
  return ids;
}

// `results` stand behind the messages `answers`. Of calls with the same id the first counts.
void order_results_of(std::span<const ChatMessage> answers, std::span<ChatMessage> results) {
  std::vector<std::string> called;
  for (const ChatMessage &answer : answers)
    for (std::string &id : ids_of_calls(answer)) called.push_back(std::move(id));
  if (called.empty()) return;
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < called.size(); ++i)
    if (!called[i].empty()) places.emplace(called[i], i);
  std::vector<std::pair<size_t, size_t>> order;  // a call's place, and which of the results is its
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::string> answered = ids_of_calls(results[i]);
    const auto place = answered.empty() ? places.end() : places.find(answered.front());
    order.emplace_back(place == places.end() ? called.size() : place->second, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<ChatMessage> ordered;
  for (const auto &[place, i] : order) ordered.push_back(std::move(results[i]));
  std::move(ordered.begin(), ordered.end(), results.begin());
}

}  // namespace

std::vector<ChatMessage> read_messages(const JsonFields &request) {
  const Json &json = request.required("messages");
  if (!json.is_array()) request.fail("messages", "an array", json);
  if (json.empty()) throw ApiError("messages: expected at least one message, found none");
  std::vector<ChatMessage> messages;
  for_each(json, "messages",
           [&](const Json &message, const std::string &where) { messages.push_back(read_message(message, where)); });
  order_results(messages);
  return messages;
}

std::string read_parts(const Json &parts, const std::string &where, std::initializer_list<std::string_view> types,
                       std::string_view between) {
  std::string all;
  for_each(parts, where, [&](const Json &part, const std::string &at) {
    if (&part != &parts.front()) all += between;
    all += read_part(part, at, types);
  });
  return all;
}

Json read_arguments(const JsonFields &call) {
  const Json *arguments = call.find("arguments");
  if (arguments == nullptr) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) call.fail("arguments", "a JSON object as text", *arguments);
  const auto &text = arguments->get_ref<const std::string &>();
  if (text.empty() || text == "null") return Json::object();
  try {
    return parse_body(text);
  } catch (const ApiError &) {
    return text;
  }
}

void order_results(std::vector<ChatMessage> &messages) {
  const auto is_result = [](const ChatMessage &message) { return message.role == "tool"; };
  const auto is_answer = [](const ChatMessage &message) { return message.role == "assistant"; };
  for (auto at = std::find_if(messages.begin(), messages.end(), is_result); at != messages.end();) {
    const auto end = std::find_if_not(at, messages.end(), is_result);
    auto first = at;  // an answer may be several messages
    while (first != messages.begin() && is_answer(*(first - 1))) --first;
    order_results_of({first, at}, {at, end});
    at = std::find_if(end, messages.end(), is_result);
  }
}

}  // namespace bonsai::server
