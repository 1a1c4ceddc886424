#include "host/chat/tool_call_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json_nesting.h"
#include "core/base/parse_json.h"

namespace bonsai::host {
namespace {

using Json = nlohmann::ordered_json;

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
    auto read = parse_json<Json>(value.get_ref<const std::string &>(), false);
    return read.is_object() ? std::optional(std::move(read)) : std::nullopt;
  }
  return says_more ? std::nullopt : std::optional(Json::object());
}

// What lies between the tags, if it is a call.
std::optional<std::string> read_call(std::string_view text) {
  if (is_nested_deeper(text, kMostNesting)) return std::nullopt;
  const auto json = parse_json<Json>(text, false);
  if (!json.is_object()) return std::nullopt;
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return std::nullopt;
  std::optional<Json> arguments = read_arguments(json);
  if (!arguments) return std::nullopt;
  return Json({{"name", *name}, {"arguments", *std::move(arguments)}}).dump();
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
  const auto [end, open] = open_.look(pending_);
  if (open) {
    call_begin_ = *open - end + kOpen.size();
    close_ = JsonEndSearch(kClose, call_begin_);
    state_ = State::kCall;
    return emit_content(end);
  }
  emit_content(at_end ? pending_.size() : end);
  return false;
}

// A model may end its answer instead of closing the tag: a call that is whole counts.
bool ToolCallParser::step_call(bool at_end) {
  size_t close = close_.look(pending_).value_or(std::string::npos);
  if (close == std::string::npos && !at_end) return false;
  std::optional<std::string> call = read_call(std::string_view(pending_).substr(call_begin_, close - call_begin_));
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
