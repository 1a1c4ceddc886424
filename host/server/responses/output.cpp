#include "host/server/responses/output.h"

#include <fmt/format.h>

#include "host/server/api_response.h"

namespace bonsai::server {

// An item that consists of a text, which is one part of it, and what its events are called.
struct ResponseOutput::TextItem {
  std::string_view type, id, part, part_event, text_event, index;
};

constexpr ResponseOutput::TextItem ResponseOutput::kMessage{"message",      "msg_",        "output_text",
                                                            "content_part", "output_text", "content_index"};
constexpr ResponseOutput::TextItem ResponseOutput::kReasoning{
    "reasoning", "rs_", "reasoning_text", "content_part", "reasoning_text", "content_index"};
constexpr ResponseOutput::TextItem ResponseOutput::kSummary{
    "reasoning", "rs_", "summary_text", "reasoning_summary_part", "reasoning_summary_text", "summary_index"};

void ResponseOutput::add(ChatPiece kind, std::string_view text) {
  if (kind == ChatPiece::kToolCall) return add_call(Json::parse(text));
  const TextItem &reasoning = form_.has_summary ? kSummary : kReasoning;
  const TextItem &item = kind == ChatPiece::kReasoning ? reasoning : kMessage;
  if (open_ != &item) {
    close("completed");
    open(item);
  }
  text_ += text;
  Json delta = place();
  delta["delta"] = text;
  if (open_ == &kMessage) delta["logprobs"] = Json::array();
  tell_(fmt::format("response.{}.delta", open_->text_event), std::move(delta));
}

Json ResponseOutput::place() const { return {{"item_id", id_}, {"output_index", items_.size()}, {open_->index, 0}}; }

Json ResponseOutput::part_json(std::string_view text) const {
  Json part = {{"type", open_->part}, {"text", text}};
  if (open_ == &kMessage) part.update({{"annotations", Json::array()}, {"logprobs", Json::array()}});
  return part;
}

// Clients expect reasoning to have a summary, be it empty.
Json ResponseOutput::item_json(std::string_view status, Json parts) const {
  Json item = {{"id", id_}, {"type", open_->type}, {"status", status}};
  if (open_ == &kMessage)
    item["role"] = "assistant";
  else
    item["summary"] = open_ == &kSummary ? parts : Json::array();
  if (open_ != &kSummary) item["content"] = std::move(parts);
  return item;
}

void ResponseOutput::open(const TextItem &item) {
  open_ = &item;
  id_ = make_id(item.id);
  text_.clear();
  tell_("response.output_item.added",
        {{"output_index", items_.size()}, {"item", item_json("in_progress", Json::array())}});
  Json part = place();
  part["part"] = part_json("");
  tell_(fmt::format("response.{}.added", item.part_event), std::move(part));
}

void ResponseOutput::close(std::string_view status) {
  if (open_ == nullptr) return;
  Json text = place(), part = place();
  text["text"] = text_;
  if (open_ == &kMessage) text["logprobs"] = Json::array();
  tell_(fmt::format("response.{}.done", open_->text_event), std::move(text));
  part["part"] = part_json(text_);
  Json item = item_json(status, Json::array({part["part"]}));
  tell_(fmt::format("response.{}.done", open_->part_event), std::move(part));
  tell_("response.output_item.done", {{"output_index", items_.size()}, {"item", item}});
  items_.push_back(std::move(item));
  open_ = nullptr;
}

// OpenAI's arguments are a text that comes in parts; here it is one.
void ResponseOutput::add_call(const Json &call) {
  close("completed");
  const Json called = call_json(call);
  const std::string id = make_id("fc_");
  const Json &arguments = called["function"]["arguments"];
  Json item = {{"id", id},
               {"type", "function_call"},
               {"status", "in_progress"},
               {"call_id", called["id"]},
               {"name", called["function"]["name"]},
               {"arguments", ""}};
  if (const auto function = form_.functions.find(item["name"]); function != form_.functions.end()) {
    item["name"] = function->second.name;
    item["namespace"] = function->second.space;
  }
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
  if (open_ == nullptr && items_.empty()) open(kMessage);
  close(is_cut ? "incomplete" : "completed");
}

}  // namespace bonsai::server
