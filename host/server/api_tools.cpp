#include "host/server/api_tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/utf8.h"

namespace bonsai::server {
namespace {

// Has every reference into a schema, which begins at its root, lead to where the schema lies in another: `prefix`.
void move_references(Json &schema, const std::string &prefix) {
  if (schema.is_array()) {
    for (Json &part : schema) move_references(part, prefix);
    return;
  }
  if (!schema.is_object()) return;
  for (const auto &[key, part] : schema.items()) {
    if (key == "const" || key == "enum" || key == "default" || key == "examples") continue;  // values, not schemas
    const bool has_names = key == "properties" || key == "patternProperties" || key == "$defs" || key == "definitions";
    if (has_names && part.is_object()) {  // of the user's: no keywords
      for (Json &named : part) move_references(named, prefix);
      continue;
    }
    if (key != "$ref" || !part.is_string()) {
      move_references(part, prefix);
    } else if (const auto reference = part.get<std::string>(); reference.starts_with('#')) {
      part = prefix + reference.substr(1);
    }
  }
}

// Whether a tool has no parameters: OpenAI's word for it is to say nothing of them, or nothing of what they are. One
// that takes any ("additionalProperties": true) says so.
bool is_empty(const Json &parameters) {
  if (!parameters.is_object()) return true;
  const auto says_nothing = [](const auto &item) {
    constexpr std::array<std::string_view, 4> kIdle = {"title", "description", "$schema", "strict"};
    const bool is_idle = std::find(kIdle.begin(), kIdle.end(), item.key()) != kIdle.end();
    if (item.key() == "type") return item.value() == "object";
    if (item.key() == "additionalProperties") return item.value() == false || item.value().is_null();
    if (item.key() == "required") return item.value().empty();
    return is_idle && !item.value().is_object();
  };
  const auto items = parameters.items();
  return std::all_of(items.begin(), items.end(), says_nothing);
}

// What a call's arguments have to be: the tool's parameters, which `root` gets as the definition `name`, and an object.
Json arguments_schema(const Json &function, const std::string &name, Json &root) {
  Json parameters = function.value("parameters", Json());
  if (is_empty(parameters)) return {{"type", "object"}, {"properties", Json::object()}};
  const std::string place = "#/$defs/" + name;
  move_references(parameters, place);
  const bool is_object = parameters.value("type", Json()) == "object";
  root["$defs"][name] = std::move(parameters);
  Json reference = {{"$ref", place}};
  if (is_object) return reference;
  return {{"allOf", Json::array({std::move(reference), {{"type", "object"}}})}};
}

// Which tools may be called, by their names, or all of them, and whether one has to be.
struct Choice {
  bool is_none = false, is_forced = false;
  std::optional<std::set<std::string>> only = {};

  bool allows(const std::string &name) const { return !only || only->contains(name); }
};

std::string name_of(const Json &tool) { return tool["function"]["name"].get<std::string>(); }

// {"mode", "tools"}
Choice read_allowed(const JsonFields &allowed) {
  const std::string mode = allowed.required_text("mode");
  if (mode != "auto" && mode != "required")
    throw ApiError(fmt::format("tool_choice: expected the mode auto or required, found {}", bonsai::quoted(mode)));
  const Json &tools = allowed.required("tools");
  if (!tools.is_array()) allowed.fail("tools", "an array", tools);
  std::set<std::string> names;
  for_each(tools, allowed.path("tools"),
           [&](const Json &tool, const std::string &where) { names.insert(read_function_name(tool, where)); });
  return {.is_forced = mode == "required", .only = std::move(names)};
}

Choice read_choice(const JsonFields &fields) {
  const Json *choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto") return {};
  if (*choice == "none") return {.is_none = true};
  if (*choice == "required") return {.is_forced = true};
  if (!choice->is_object())
    fields.fail("tool_choice", "\"auto\", \"none\", \"required\", a function or allowed_tools", *choice);
  const JsonFields inner(*choice, "tool_choice.");
  if (choice->value("type", Json()) == "allowed_tools")
    return read_allowed(object_at(inner.required("allowed_tools"), inner.path("allowed_tools")));
  return {.is_forced = true, .only = std::set{read_function_name(*choice, "tool_choice")}};
}

void check_names(const Json &tools, const Choice &choice) {
  std::set<std::string> missing = choice.only.value_or(std::set<std::string>());
  for (const Json &tool : tools) missing.erase(name_of(tool));
  if (!missing.empty())
    throw ApiError(fmt::format("tool_choice: none of the tools is called {}", bonsai::quoted(*missing.begin())));
}

std::string allowed_tools(const Json &tools, const Choice &choice) {
  Json allowed = Json::array();
  for (const Json &tool : tools)
    if (choice.allows(name_of(tool))) allowed.push_back(tool);
  return allowed.dump();
}

// Of a call of one of the tools that may be called. `given`: the schemas that it consists of, as they came.
std::string call_schema(const Json &tools, const Choice &choice, const std::vector<std::string> &fields,
                        std::vector<GivenSchema> &given) {
  Json root = Json::object(), calls = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json &function = tools[i]["function"];
    if (!choice.allows(name_of(tools[i]))) continue;
    const std::string number = std::to_string(calls.size());
    if (const Json parameters = function.value("parameters", Json()); !is_empty(parameters))
      given.push_back({fields.empty() ? fmt::format("tools[{}].function.parameters", i) : fields[i],
                       {"#/$defs/" + number, "#/anyOf/" + number + "/properties/arguments"}});
    Json arguments = arguments_schema(function, number, root);
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", function["name"]}}}, {"arguments", std::move(arguments)}}},
                     {"required", {"name", "arguments"}},
                     {"additionalProperties", false}});
  }
  root["anyOf"] = std::move(calls);
  return root.dump();
}

}  // namespace

std::string read_function_name(const Json &json, const std::string &where) {
  const Json type = json.is_object() ? json.value("type", Json()) : Json();
  if (type.is_string() && type != "function")
    throw ApiError(fmt::format("{}.type: expected function, found {}", where,
                               bonsai::quoted(type.get_ref<const std::string &>())));
  const auto function = json.is_object() ? json.find("function") : json.end();
  if (!json.is_object() || function == json.end() || !function->is_object())
    throw ApiError(fmt::format("{}: expected an object with a function", where));
  return JsonFields(*function, where + ".function.").required_text("name");
}

// With "none" the model is not told of them. Of those that may not be called it is where a form holds its calls to the
// others: prompts begin alike then, whichever are allowed.
void read_tools(const JsonFields &fields, ChatRequest &request, const std::vector<std::string> &parameters) {
  const Choice choice = read_choice(fields);
  request.parallel_calls = fields.flag("parallel_tool_calls").value_or(true);
  const Json *tools = fields.find("tools");
  if (tools != nullptr && !tools->is_array()) fields.fail("tools", "an array", *tools);
  const bool has_some = tools != nullptr && !tools->empty() && !(choice.only && choice.only->empty());
  if (!has_some && choice.is_forced) throw ApiError("tool_choice: there are no tools to choose from");
  if (tools != nullptr) for_each(*tools, "tools", read_function_name);
  if (!has_some || choice.is_none) return;
  check_names(*tools, choice);
  const bool may_answer_in_form = !choice.is_forced && !request.options.json_schema.empty();
  request.chat.tools = choice.is_forced || may_answer_in_form ? tools->dump() : allowed_tools(*tools, choice);
  if (choice.is_forced && !request.options.grammar.empty())
    throw ApiError("tool_choice and grammar both give the form: choose one");
  if (choice.is_forced)
    request.call_schema = call_schema(*tools, choice, parameters, request.parameters);
  else if (may_answer_in_form)
    request.options.call_schema = call_schema(*tools, choice, parameters, request.parameters);
}

}  // namespace bonsai::server
