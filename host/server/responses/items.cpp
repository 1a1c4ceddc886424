#include "host/server/responses/items.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "core/base/utf8.h"
#include "host/server/api_messages.h"

namespace bonsai::server {
namespace {

// A text, or its parts. Only what is said to the model is a text; pictures and files are not.
std::string read_texts(const JsonFields &fields, const char *name) {
  const Json &content = fields.required(name);
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) fields.fail(name, "a string or an array of texts", content);
  return read_parts(content, fields.path(name), {"input_text", "output_text", "text", "refusal"});
}

// What was thought, or else a summary of it; neither where it is encrypted for another server.
std::string read_reasoning(const JsonFields &fields) {
  for (const char *name : {"content", "summary"}) {
    const Json *parts = fields.find(name);
    if (parts == nullptr || parts->empty()) continue;
    if (!parts->is_array()) fields.fail(name, "an array of texts", *parts);
    return read_parts(*parts, fields.path(name), {"reasoning_text", "summary_text", "text"});
  }
  return "";
}

}  // namespace

std::string name_in_space(std::string_view space, std::string_view name) { return fmt::format("{}.{}", space, name); }

void ItemReader::add(const Json &item, const std::string &where) {
  const JsonFields fields = object_at(item, where);
  const std::string type = fields.text("type").value_or("message");
  if (type == "message") return add_message(fields);
  if (type == "function_call") return add_call(fields);
  if (type == "function_call_output") return add_result(fields);
  if (type != "reasoning")
    throw ApiError(fmt::format("{}: expected message, reasoning, function_call or function_call_output, found {}",
                               fields.path("type"), bonsai::quoted(type)));
  if (const std::string text = read_reasoning(fields); !text.empty()) answer(Part::kReasoning).reasoning += text;
}

// "developer" is what OpenAI calls "system" by now.
void ItemReader::add_message(const JsonFields &fields) {
  const std::string role = fields.required_text("role");
  std::string content = read_texts(fields, "content");
  if (role == "assistant") {
    answer(Part::kContent).content += content;
    return;
  }
  end_answer();
  messages_.push_back({.role = role == "developer" ? "system" : role, .content = std::move(content)});
}

// As templates expect it.
void ItemReader::add_call(const JsonFields &fields) {
  std::string name = fields.required_text("name");
  const std::string id = fields.required_text("call_id");
  if (const auto space = fields.text("namespace")) name = name_in_space(*space, name);
  Json arguments = read_arguments(fields);
  answer(Part::kCall);
  names_.insert_or_assign(id, name);
  calls_.push_back(
      {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", std::move(arguments)}}}});
}

void ItemReader::add_result(const JsonFields &fields) {
  const std::string id = fields.required_text("call_id");
  std::string output = read_texts(fields, "output");
  end_answer();
  Json call = {{"id", id}};
  if (const auto name = names_.find(id); name != names_.end()) call["name"] = name->second;
  messages_.push_back(
      {.role = "tool", .content = std::move(output), .tool_calls = Json::array({std::move(call)}).dump()});
}

// The message that `part` belongs to: a thought behind something else begins another, as does what is said twice.
ChatMessage &ItemReader::answer(Part part) {
  const bool is_new = part == Part::kReasoning ? last_ != part : part == Part::kContent && last_ == part;
  const bool goes_on = in_answer_ && !is_new;
  if (!goes_on) {
    end_answer();
    messages_.push_back({.role = "assistant", .content = ""});
    in_answer_ = true;
  }
  last_ = part;
  return messages_.back();
}

void ItemReader::end_answer() {
  if (!calls_.empty()) messages_.back().tool_calls = std::exchange(calls_, Json::array()).dump();
  in_answer_ = false;
}

std::vector<ChatMessage> ItemReader::messages() && {
  end_answer();
  order_results(messages_);
  return std::move(messages_);
}

}  // namespace bonsai::server
