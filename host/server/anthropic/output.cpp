#include "host/server/anthropic/output.h"

#include "host/server/api_response.h"

namespace bonsai::server {
namespace {

// What was thought has a signature there, by which its server knows it again.
Json text_block(ChatPiece kind, std::string_view text) {
  if (kind == ChatPiece::kReasoning) return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
  return {{"type", "text"}, {"text", text}};
}

Json text_delta(ChatPiece kind, std::string_view text) {
  if (kind == ChatPiece::kReasoning) return {{"type", "thinking_delta"}, {"thinking", text}};
  return {{"type", "text_delta"}, {"text", text}};
}

}  // namespace

void MessageContent::add(ChatPiece kind, std::string_view text) {
  if (kind == ChatPiece::kToolCall) return add_call(Json::parse(text));
  if (open_ != kind) {
    end();
    begin(text_block(kind, ""));
    open_ = kind;
  }
  text_ += text;
  tell_delta(text_delta(kind, text));
}

void MessageContent::end() {
  if (!open_) return;
  if (open_ == ChatPiece::kReasoning) tell_delta({{"type", "signature_delta"}, {"signature", ""}});
  close(text_block(*open_, std::exchange(text_, std::string())));
  open_.reset();
}

void MessageContent::add_call(const Json &call) {
  end();
  const auto arguments = call.find("arguments");
  Json block = {
      {"type", "tool_use"}, {"id", make_id("toolu_")}, {"name", call.value("name", "")}, {"input", Json::object()}};
  begin(block);
  if (arguments != call.end()) block["input"] = *arguments;
  tell_delta({{"type", "input_json_delta"}, {"partial_json", to_line(block["input"])}});
  close(std::move(block));
}

void MessageContent::begin(Json block) {
  tell_("content_block_start", {{"index", blocks_.size()}, {"content_block", std::move(block)}});
}

void MessageContent::tell_delta(Json delta) {
  tell_("content_block_delta", {{"index", blocks_.size()}, {"delta", std::move(delta)}});
}

void MessageContent::close(Json block) {
  tell_("content_block_stop", {{"index", blocks_.size()}});
  blocks_.push_back(std::move(block));
}

}  // namespace bonsai::server
