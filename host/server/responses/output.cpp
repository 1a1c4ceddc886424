#include "host/server/responses/output.h"

#include "host/server/api_response.h"

namespace bonsai::server {
namespace {

std::string_view part_type(ChatPiece kind) { return kind == ChatPiece::kReasoning ? "reasoning_text" : "output_text"; }

Json part_json(ChatPiece kind, std::string_view text) {
  Json part = {{"type", part_type(kind)}, {"text", text}};
  if (kind != ChatPiece::kReasoning) part.update({{"annotations", Json::array()}, {"logprobs", Json::array()}});
  return part;
}

// Reasoning could have a summary, too, which nobody writes here.
Json item_json(ChatPiece kind, const std::string &id, std::string_view status, Json content) {
  Json item = {{"id", id}, {"type", kind == ChatPiece::kReasoning ? "reasoning" : "message"}, {"status", status}};
  if (kind == ChatPiece::kReasoning)
    item["summary"] = Json::array();
  else
    item["role"] = "assistant";
  item["content"] = std::move(content);
  return item;
}

}  // namespace

void ResponseOutput::add(ChatPiece kind, std::string_view text) {
  if (kind == ChatPiece::kToolCall) return add_call(Json::parse(text));
  if (open_ != kind) {
    close("completed");
    open(kind);
  }
  text_ += text;
  Json delta = place();
  delta["delta"] = text;
  if (kind != ChatPiece::kReasoning) delta["logprobs"] = Json::array();
  tell_("response." + std::string(part_type(kind)) + ".delta", std::move(delta));
}

// Of the text that is under way.
Json ResponseOutput::place() const { return {{"item_id", id_}, {"output_index", items_.size()}, {"content_index", 0}}; }

void ResponseOutput::open(ChatPiece kind) {
  open_ = kind;
  id_ = make_id(kind == ChatPiece::kReasoning ? "rs_" : "msg_");
  text_.clear();
  tell_("response.output_item.added",
        {{"output_index", items_.size()}, {"item", item_json(kind, id_, "in_progress", Json::array())}});
  Json part = place();
  part["part"] = part_json(kind, "");
  tell_("response.content_part.added", std::move(part));
}

void ResponseOutput::close(std::string_view status) {
  if (!open_) return;
  Json text = place(), part = place();
  text["text"] = text_;
  if (*open_ != ChatPiece::kReasoning) text["logprobs"] = Json::array();
  tell_("response." + std::string(part_type(*open_)) + ".done", std::move(text));
  part["part"] = part_json(*open_, text_);
  Json item = item_json(*open_, id_, status, Json::array({part["part"]}));
  tell_("response.content_part.done", std::move(part));
  tell_("response.output_item.done", {{"output_index", items_.size()}, {"item", item}});
  items_.push_back(std::move(item));
  open_.reset();
}

// OpenAI's arguments are a text that comes in parts; here it is one.
void ResponseOutput::add_call(const Json &call) {
  close("completed");
  const Json function = call_json(call);
  const std::string id = make_id("fc_");
  const Json &arguments = function["function"]["arguments"];
  Json item = {{"id", id},
               {"type", "function_call"},
               {"status", "in_progress"},
               {"call_id", function["id"]},
               {"name", function["function"]["name"]},
               {"arguments", ""}};
  const size_t index = items_.size();
  tell_("response.output_item.added", {{"output_index", index}, {"item", item}});
  tell_("response.function_call_arguments.delta", {{"item_id", id}, {"output_index", index}, {"delta", arguments}});
  tell_("response.function_call_arguments.done",
        {{"item_id", id}, {"output_index", index}, {"name", item["name"]}, {"arguments", arguments}});
  item["status"] = "completed";
  item["arguments"] = arguments;
  tell_("response.output_item.done", {{"output_index", index}, {"item", item}});
  items_.push_back(std::move(item));
}

void ResponseOutput::end(bool is_cut) {
  if (!open_ && items_.empty()) open(ChatPiece::kContent);
  close(is_cut ? "incomplete" : "completed");
}

}  // namespace bonsai::server
