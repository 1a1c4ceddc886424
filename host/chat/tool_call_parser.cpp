#include "host/chat/tool_call_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json_nesting.h"
#include "host/chat/held_back.h"

namespace bonsai::host {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
constexpr size_t kMostNesting = 90;  // a message's calls may be nested 100 deep, and lie in an array

// Some models call arguments parameters, and some write them as a text of JSON. Those that are missing are none only
// where the call says nothing else: what it says could be them.
std::optional<Json> read_arguments(const Json &call) {
  const auto is_name = [](std::string_view name) { return name == "arguments" || name == "parameters"; };
  bool says_more = false;
  for (const auto &[name, value] : call.items()) {
    if (!is_name(name)) says_more |= name != "name";
    if (!is_name(name) || value.is_null()) continue;
    if (value.is_object()) return value;
    if (!value.is_string() || is_nested_deeper(value.get_ref<const std::string &>(), kMostNesting)) return std::nullopt;
    Json read = Json::parse(value.get_ref<const std::string &>(), nullptr, false);
    return read.is_object() ? std::optional(std::move(read)) : std::nullopt;
  }
  return says_more ? std::nullopt : std::optional(Json::object());
}

// What lies between the tags, if it is a call.
std::optional<std::string> read_call(std::string_view text) {
  if (is_nested_deeper(text, kMostNesting)) return std::nullopt;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return std::nullopt;
  std::optional<Json> arguments = read_arguments(json);
  if (!arguments) return std::nullopt;
  return Json({{"name", *name}, {"arguments", *std::move(arguments)}}).dump();
}

// Where the tag is closed: not within one of the call's own texts.
size_t find_close(std::string_view text, size_t from) {
  bool is_quoted = false;
  for (size_t i = from; i < text.size(); ++i) {
    if (text[i] == '"') is_quoted = !is_quoted;
    if (is_quoted && text[i] == '\\') ++i;
    if (!is_quoted && text.substr(i).starts_with(kClose)) return i;
  }
  return std::string_view::npos;
}

}  // namespace

bool ToolCallParser::push(std::string_view text) {
  pending_ += text;
  while (wanted_ && step(false)) {
  }
  return wanted_;
}

bool ToolCallParser::finish() {
  while (wanted_ && step(true)) {
  }
  return wanted_;
}

std::string ToolCallParser::calls() const { return calls_.empty() ? "" : fmt::format("[{}]", fmt::join(calls_, ",")); }

// False once there is nothing more to decide without more text.
bool ToolCallParser::step(bool at_end) {
  if (state_ == State::kBehindCall) {
    pending_.erase(0, std::min(pending_.find_first_not_of('\n'), pending_.size()));
    if (pending_.empty()) return false;
    state_ = State::kContent;
  }
  return state_ == State::kCall ? step_call(at_end) : step_content(at_end);
}

bool ToolCallParser::step_content(bool at_end) {
  const size_t open = pending_.find(kOpen);
  if (open != std::string::npos) {
    state_ = State::kCall;
    return emit_content(without_line_ends(pending_, open));
  }
  const size_t tag = at_end ? 0 : begun_tag(pending_, kOpen);
  emit_content(at_end ? pending_.size() : without_line_ends(pending_, pending_.size() - tag));
  return false;
}

// A model may end its answer instead of closing the tag: a call that is whole counts.
bool ToolCallParser::step_call(bool at_end) {
  const size_t begin = pending_.find(kOpen) + kOpen.size();
  size_t close = find_close(pending_, begin);
  if (close == std::string::npos && !at_end) return false;
  std::optional<std::string> call = read_call(std::string_view(pending_).substr(begin, close - begin));
  if (!call && close == std::string::npos) close = pending_.find(kClose);  // whatever lies in front of it
  const size_t end = close == std::string::npos ? pending_.size() : close + kClose.size();
  if (!call) {
    state_ = State::kContent;
    return emit_content(end);
  }
  pending_.erase(0, end);
  state_ = State::kBehindCall;
  calls_.push_back(*std::move(call));
  return wanted_ = !callback_ || callback_(ChatPiece::kToolCall, calls_.back());
}

bool ToolCallParser::emit_content(size_t bytes) {
  if (bytes == 0) return wanted_;
  const std::string piece = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  content_ += piece;
  return wanted_ = !callback_ || callback_(ChatPiece::kContent, piece);
}

}  // namespace bonsai::host
