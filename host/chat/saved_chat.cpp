#include "host/chat/saved_chat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_nesting.h"
#include "core/base/parse_json.h"
#include "core/base/utf8.h"

namespace bonsai::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kFormat = "bonsai-chat";
constexpr int kVersion = 1;
constexpr size_t kMostNesting = 100;  // of tools and tool_calls: no more than a chat template takes
constexpr size_t kNestingAround = 3;  // {"messages": [{"tool_calls": ...

// An object's fields, each read once; every error begins with the object's name.
class FieldReader {
 public:
  FieldReader(const Json &object, std::string where) : object_(object), where_(std::move(where)) {}

  // Missing: empty, or an error if it is required.
  Result<std::string> text(const char *name, bool required) {
    const auto field = object_.find(name);
    if (field == object_.end()) return required ? missing(name) : Result<std::string>("");
    if (!field->is_string()) return fail("{}{} is {}; expected a string", where_, name, field->type_name());
    return field->get<std::string>();
  }

  // The text of a JSON array, or empty.
  Result<std::string> array(const char *name) {
    const auto field = object_.find(name);
    if (field == object_.end()) return "";
    if (!field->is_array()) return fail("{}{} is {}; expected an array", where_, name, field->type_name());
    return field->dump();
  }

  // nullopt: all fields are among `known`.
  std::optional<Error> unknown_field(std::initializer_list<std::string_view> known) const {
    for (const auto &[name, value] : object_.items()) {
      if (std::find(known.begin(), known.end(), name) == known.end())
        return Error{fmt::format("{}{} is not a known field", where_, bonsai::quoted(name))};
    }
    return std::nullopt;
  }

 private:
  Result<std::string> missing(const char *name) const { return fail("{}{} is missing", where_, name); }

  const Json &object_;
  const std::string where_;
};

// Moves the value of `result` into `target`, or its error into `error`. Returns whether there was a value.
bool take(Result<std::string> result, std::string &target, Error &error) {
  if (result) {
    target = std::move(*result);
  } else {
    error = std::move(result.error());
  }
  return result.has_value();
}

Result<ChatMessage> read_message(const Json &json, size_t index) {
  if (!json.is_object()) return fail("messages[{}] is {}; expected an object", index, json.type_name());
  FieldReader fields(json, fmt::format("messages[{}].", index));
  if (auto unknown = fields.unknown_field({"role", "content", "reasoning", "tool_calls"}))
    return tl::unexpected(std::move(*unknown));
  ChatMessage message;
  Error error;
  const bool complete = take(fields.text("role", true), message.role, error) &&
                        take(fields.text("content", true), message.content, error) &&
                        take(fields.text("reasoning", false), message.reasoning, error) &&
                        take(fields.array("tool_calls"), message.tool_calls, error);
  if (!complete) return tl::unexpected(std::move(error));
  return message;
}

Result<void> check_header(const Json &json) {
  if (!json.is_object() || json.value("format", Json()) != kFormat)
    return fail("not a saved conversation: expected an object with \"format\": \"{}\"", kFormat);
  const auto version = json.find("version");
  if (version == json.end() || !version->is_number_integer())
    return fail("version is missing or no integer; expected {}", kVersion);
  if (*version != kVersion) return fail("version is {}; this program knows {}", version->dump(), kVersion);
  return {};
}

}  // namespace

Result<void> check_json_array(std::string_view what, const std::string &text) {
  if (text.empty()) return {};
  if (is_nested_deeper(text, kMostNesting)) return fail("{}: nested more than {} deep", what, kMostNesting);
  const auto json = parse_json<Json>(text, false);
  if (json.is_discarded()) return fail("{}: not JSON", what);
  if (!json.is_array()) return fail("{}: expected a JSON array, found {}", what, json.type_name());
  return {};
}

std::string write_conversation(const Conversation &conversation) {
  Json json = {{"format", kFormat}, {"version", kVersion}};
  const ChatOptions &options = conversation.options;
  if (!options.system.empty()) json["system"] = options.system;
  if (!options.tools.empty()) json["tools"] = Json::parse(options.tools);
  if (options.enable_thinking) json["enable_thinking"] = *options.enable_thinking;
  json["messages"] = Json::array();
  for (const ChatMessage &message : conversation.messages) {
    Json entry = {{"role", message.role}, {"content", message.content}};
    if (!message.reasoning.empty()) entry["reasoning"] = message.reasoning;
    if (!message.tool_calls.empty()) entry["tool_calls"] = Json::parse(message.tool_calls);
    json["messages"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

Result<Conversation> read_conversation(std::string_view text) {
  if (is_nested_deeper(text, kMostNesting + kNestingAround))
    return fail("not a saved conversation: nested more than {} deep", kMostNesting + kNestingAround);
  const auto json = parse_json<Json>(text, false);
  if (json.is_discarded()) return fail("not a saved conversation: not JSON");
  if (auto ok = check_header(json); !ok) return tl::unexpected(std::move(ok.error()));
  FieldReader fields(json, "");
  if (auto unknown = fields.unknown_field({"format", "version", "system", "tools", "enable_thinking", "messages"}))
    return tl::unexpected(std::move(*unknown));
  Conversation conversation;
  Error error;
  const bool complete = take(fields.text("system", false), conversation.options.system, error) &&
                        take(fields.array("tools"), conversation.options.tools, error);
  if (!complete) return tl::unexpected(std::move(error));
  if (const auto thinking = json.find("enable_thinking"); thinking != json.end()) {
    if (!thinking->is_boolean()) return fail("enable_thinking is {}; expected true or false", thinking->type_name());
    conversation.options.enable_thinking = thinking->get<bool>();
  }
  const auto messages = json.find("messages");
  if (messages == json.end() || !messages->is_array()) return fail("messages is missing or no array");
  for (size_t i = 0; i < messages->size(); ++i) {
    auto message = read_message((*messages)[i], i);
    if (!message) return tl::unexpected(std::move(message.error()));
    conversation.messages.push_back(std::move(*message));
  }
  return conversation;
}

}  // namespace bonsai::host
