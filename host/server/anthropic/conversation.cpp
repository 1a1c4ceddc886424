#include "host/server/anthropic/conversation.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "core/base/utf8.h"
#include "host/server/api_messages.h"

namespace bonsai::server {
namespace {

// A text, or blocks of text.
std::string read_text_blocks(const JsonFields &fields, const char *name, std::string_view between = "\n") {
  const Json *content = fields.find(name);
  if (content == nullptr) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) fields.fail(name, "a string or an array of blocks", *content);
  return read_parts(*content, fields.path(name), {"text"}, between);
}

// Turns the blocks of messages into messages: what a user says of calls is one of its own, ahead of what else is said.
class BlockReader {
 public:
  void add(const Json &message, const std::string &where) {
    const JsonFields fields = object_at(message, where);
    current_ = {.role = fields.required_text("role"), .content = ""};
    if (current_.role != "user" && current_.role != "assistant" && current_.role != "system")
      throw ApiError(fmt::format("{}: expected user, assistant or system, found {}", fields.path("role"),
                                 bonsai::quoted(current_.role)));
    const Json &content = fields.required("content");
    if (content.is_string()) {
      current_.content = content.get<std::string>();
    } else {
      if (!content.is_array()) fields.fail("content", "a string or an array of blocks", content);
      for_each(content, fields.path("content"),
               [&](const Json &block, const std::string &place) { add_block(block, place); });
    }
    end_message();
  }

  std::vector<ChatMessage> messages() && {
    order_results(messages_);
    return std::move(messages_);
  }

 private:
  void add_block(const Json &block, const std::string &where) {
    const JsonFields fields = object_at(block, where);
    const std::string type = fields.required_text("type");
    const bool is_answer = current_.role == "assistant";
    if (type == "text") {
      if (std::exchange(has_text_, true)) current_.content += '\n';
      current_.content += fields.required_text("text");
    } else if (type == "tool_result" && !is_answer) {
      add_result(fields);
    } else if (type == "tool_use" && is_answer) {
      add_call(fields);
    } else if (type == "thinking" && is_answer) {
      current_.reasoning += fields.required_text("thinking");
    } else if (type != "redacted_thinking" || !is_answer) {  // which was encrypted for another server
      throw ApiError(fmt::format("{}: expected {}, found {}", fields.path("type"),
                                 is_answer ? "text, thinking or tool_use" : "text or tool_result",
                                 bonsai::quoted(type)));
    }
  }

  void add_call(const JsonFields &fields) {
    const std::string name = fields.required_text("name"), id = fields.required_text("id");
    const Json *input = fields.find("input");
    if (input != nullptr && !input->is_object()) fields.fail("input", "an object", *input);
    names_.insert_or_assign(id, name);
    calls_.push_back({{"id", id},
                      {"type", "function"},
                      {"function", {{"name", name}, {"arguments", input == nullptr ? Json::object() : *input}}}});
  }

  void add_result(const JsonFields &fields) {
    const std::string id = fields.required_text("tool_use_id");
    Json call = {{"id", id}};
    if (const auto name = names_.find(id); name != names_.end()) call["name"] = name->second;
    const std::string_view said_first = fields.flag("is_error").value_or(false) ? "Error: " : "";
    messages_.push_back({.role = "tool",
                         .content = std::string(said_first) + read_text_blocks(fields, "content"),
                         .tool_calls = Json::array({std::move(call)}).dump()});
    has_results_ = true;
  }

  void end_message() {
    if (!calls_.empty()) current_.tool_calls = std::exchange(calls_, Json::array()).dump();
    const bool says_nothing = current_.content.empty() && has_results_;
    if (!says_nothing) messages_.push_back(std::move(current_));
    has_results_ = has_text_ = false;
  }

  std::vector<ChatMessage> messages_;
  ChatMessage current_;
  Json calls_ = Json::array();                          // of the current one
  bool has_results_ = false, has_text_ = false;         // the same
  std::unordered_map<std::string, std::string> names_;  // of the tools called, by the calls' ids
};

}  // namespace

std::vector<ChatMessage> read_anthropic_messages(const JsonFields &request) {
  const Json &json = request.required("messages");
  if (!json.is_array()) request.fail("messages", "an array", json);
  if (json.empty()) throw ApiError("messages: expected at least one message, found none");
  BlockReader reader;
  for_each(json, "messages", [&](const Json &message, const std::string &where) { reader.add(message, where); });
  std::vector<ChatMessage> messages = std::move(reader).messages();
  if (messages.back().role == "assistant")
    throw ApiError(
        "messages: expected a last message of the user, found one of the assistant, which is not gone on with");
  if (std::string system = read_text_blocks(request, "system", "\n\n"); !system.empty())
    messages.insert(messages.begin(), {.role = "system", .content = std::move(system)});
  return messages;
}

}  // namespace bonsai::server
