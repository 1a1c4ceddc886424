#include "host/server/api_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
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

// Of a part of a content. What the assistant refused, it said.
std::string read_part(const Json &part, const std::string &where) {
  if (!part.is_object()) throw ApiError(fmt::format("{}: expected an object, found {}", where, shown(part)));
  const JsonFields fields(part, where + ".");
  const std::string type = fields.text("type").value_or("");
  if (type != "text" && type != "refusal")
    throw ApiError(fmt::format("{}: expected text, found {}", fields.path("type"), bonsai::quoted(type)));
  const auto text = fields.text(type.c_str());
  if (!text) throw ApiError(fmt::format("{} is missing", fields.path(type)));
  return *text;
}

// A text, or its parts. Those who answer need not have said anything.
std::string read_content(const JsonFields &fields, std::string_view role) {
  const Json *content = fields.find("content");
  if (content == nullptr) {
    if (role != "assistant" && role != "tool") throw ApiError(fmt::format("{} is missing", fields.path("content")));
    return fields.text("refusal").value_or("");
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) fields.fail("content", "a string or an array of texts", *content);
  std::string all;
  for_each(*content, fields.path("content"),
           [&](const Json &part, const std::string &where) { all += read_part(part, where); });
  return all;
}

// Arguments are a text of JSON. What a model wrote that is none stays as it was.
Json read_arguments(const JsonFields &function) {
  const Json *arguments = function.find("arguments");
  if (arguments == nullptr) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) function.fail("arguments", "a JSON object as text", *arguments);
  const auto &text = arguments->get_ref<const std::string &>();
  if (text.empty() || text == "null") return Json::object();
  try {
    return parse_body(text);
  } catch (const ApiError &) {
    return text;
  }
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
  if (!json.is_object()) throw ApiError(fmt::format("{}: expected an object, found {}", where, shown(json)));
  const JsonFields fields(json, where + ".");
  const auto role = fields.text("role");
  if (!role) throw ApiError(fmt::format("{} is missing", fields.path("role")));
  refuse_functions(fields, *role);
  return {.role = *role == "developer" ? "system" : *role,
          .content = read_content(fields, *role),
          .reasoning = fields.text("reasoning_content").value_or(""),
          .tool_calls = *role == "tool" ? read_answered_call(fields) : read_calls(fields)};
}

// Where the calls of a message stand, by their ids; of equal ones the first counts.
std::unordered_map<std::string, size_t> places_of_calls(const Json &message) {
  std::unordered_map<std::string, size_t> places;
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return places;
  for (size_t i = 0; i < calls->size(); ++i)
    if (const auto id = JsonFields((*calls)[i], "").text("id")) places.emplace(*id, i);
  return places;
}

// Templates show the results of calls in the order of the messages, most of them without the calls' ids: here they come
// in the order of the calls, whichever was ready first. `results` stand behind the message `calls`; their JSON, from
// `first` on, has been read already. Those of no call stay behind the others.
void order_results(const Json &calls, const Json &json, size_t first, std::span<ChatMessage> results) {
  const auto places = places_of_calls(calls);
  if (places.empty()) return;
  std::vector<std::pair<size_t, size_t>> order;  // a call's place, and which of the results is its
  for (size_t i = 0; i < results.size(); ++i) {
    const auto id = JsonFields(json[first + i], "").text("tool_call_id");
    const auto place = id ? places.find(*id) : places.end();
    order.emplace_back(place == places.end() ? std::numeric_limits<size_t>::max() : place->second, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<ChatMessage> ordered;
  for (const auto &[place, i] : order) ordered.push_back(std::move(results[i]));
  std::move(ordered.begin(), ordered.end(), results.begin());
}

}  // namespace

std::vector<ChatMessage> read_messages(const JsonFields &request) {
  const Json *json = request.find("messages");
  if (json == nullptr) throw ApiError("messages is missing");
  if (!json->is_array()) request.fail("messages", "an array", *json);
  if (json->empty()) throw ApiError("messages: expected at least one message, found none");
  std::vector<ChatMessage> messages;
  for_each(*json, "messages",
           [&](const Json &message, const std::string &where) { messages.push_back(read_message(message, where)); });
  const auto is_result = [](const ChatMessage &message) { return message.role == "tool"; };
  for (auto at = std::find_if(messages.begin(), messages.end(), is_result); at != messages.end();) {
    const auto end = std::find_if_not(at, messages.end(), is_result);
    const auto first = static_cast<size_t>(at - messages.begin());
    if (first > 0) order_results((*json)[first - 1], *json, first, {at, end});
    at = std::find_if(end, messages.end(), is_result);
  }
  return messages;
}

}  // namespace bonsai::server
