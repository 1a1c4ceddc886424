#include "host/server/responses/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "host/server/api_tools.h"
#include "host/server/responses/items.h"

namespace bonsai::server {
namespace {

// In the form that chat completions have it in.
Json chat_function(const JsonFields &fields, Json function) {
  if (const std::string type = fields.text("type").value_or(""); type != "function")
    throw ApiError(fmt::format("{}: expected function, found {}", fields.path("type"), bonsai::quoted(type)));
  fields.required_text("name");
  function.erase("type");
  return {{"type", "function"}, {"function", std::move(function)}};
}

// What OpenAI's server runs itself.
bool is_hosted(std::string_view type) {
  constexpr std::array<std::string_view, 5> kHosted = {"file_search", "code_interpreter", "image_generation", "mcp",
                                                       "tool_search"};
  return type.starts_with("web_search") || std::find(kHosted.begin(), kHosted.end(), type) != kHosted.end();
}

// The tools that the model is told of, from those in a request.
class ToolReader {
 public:
  explicit ToolReader(NamespacedFunctions &functions) : functions_(functions) {}

  void add(const Json &tool, const std::string &where) {
    const JsonFields fields = object_at(tool, where);
    const std::string type = fields.text("type").value_or("");
    if (is_hosted(type)) return;
    if (type == "function")
      tell(chat_function(fields, tool), fields);
    else if (type == "namespace")
      add_space(fields);
    else
      throw ApiError(
          fmt::format("{}: expected function or namespace, found {}", fields.path("type"), bonsai::quoted(type)));
    told_.push_back(tool);
  }

  // As the client has them, and as chat completions do.
  Json told() && { return std::move(told_); }
  Json chat() && { return std::move(chat_); }
  // The field with the parameters of each of these.
  std::vector<std::string> parameters() && { return std::move(parameters_); }

 private:
  void add_space(const JsonFields &fields) {
    const std::string space = fields.required_text("name");
    const Json &tools = fields.required("tools");
    if (!tools.is_array()) fields.fail("tools", "an array", tools);
    for_each(tools, fields.path("tools"), [&](const Json &tool, const std::string &where) {
      const JsonFields inner = object_at(tool, where);
      Json function = chat_function(inner, tool);
      const std::string name = function["function"]["name"], whole = name_in_space(space, name);
      function["function"]["name"] = whole;
      functions_.insert_or_assign(whole, NamespacedFunction{space, name});
      tell(std::move(function), inner);
    });
  }

  // Of two tools with one name nobody could say which is called.
  void tell(Json function, const JsonFields &fields) {
    const auto [name, is_new] = names_.insert(function["function"]["name"].get<std::string>());
    if (!is_new)
      throw ApiError(fmt::format("{}: another tool is called {}, too", fields.path("name"), bonsai::quoted(*name)));
    chat_.push_back(std::move(function));
    parameters_.push_back(fields.path("parameters"));
  }

  NamespacedFunctions &functions_;
  std::unordered_set<std::string> names_;
  Json told_ = Json::array(), chat_ = Json::array();
  std::vector<std::string> parameters_;
};

Json chat_function_choice(const JsonFields &choice, const Json &json) {
  Json function = chat_function(choice, json);
  if (const auto space = choice.text("namespace"))
    function["function"]["name"] = name_in_space(*space, function["function"]["name"].get<std::string>());
  return function;
}

// Of the tools that may be called, those that the model is told of.
Json chat_choice(const JsonFields &choice, const Json &json) {
  if (choice.text("type") != "allowed_tools") return chat_function_choice(choice, json);
  const Json &tools = choice.required("tools");
  if (!tools.is_array()) choice.fail("tools", "an array", tools);
  Json allowed = {{"mode", choice.required_text("mode")}, {"tools", Json::array()}};
  for_each(tools, choice.path("tools"), [&](const Json &tool, const std::string &where) {
    const JsonFields fields = object_at(tool, where);
    if (!is_hosted(fields.text("type").value_or(""))) allowed["tools"].push_back(chat_function_choice(fields, tool));
  });
  return {{"type", "allowed_tools"}, {"allowed_tools", std::move(allowed)}};
}

}  // namespace

void read_response_tools(const JsonFields &fields, ResponseRequest &request) {
  Json chat = Json::object();
  for (const char *name : {"tool_choice", "parallel_tool_calls"})
    if (const Json *value = fields.find(name)) chat[name] = *value;
  request.settings["tools"] = Json::array();
  std::vector<std::string> parameters;
  if (const Json *tools = fields.find("tools")) {
    if (!tools->is_array()) fields.fail("tools", "an array", *tools);
    ToolReader reader(request.form.functions);
    for_each(*tools, "tools", [&](const Json &tool, const std::string &where) { reader.add(tool, where); });
    request.settings["tools"] = std::move(reader).told();
    chat["tools"] = std::move(reader).chat();
    parameters = std::move(reader).parameters();
  }
  if (const Json *choice = fields.find("tool_choice"); choice != nullptr && choice->is_object())
    chat["tool_choice"] = chat_choice(JsonFields(*choice, "tool_choice."), *choice);
  read_tools(JsonFields(chat, ""), request, parameters);
}

}  // namespace bonsai::server
