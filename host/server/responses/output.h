// The output of a response, an item after the other: what was thought, what is said, and which functions are called.
#pragma once

#include <bonsai/chat.h>

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "host/server/json_fields.h"

namespace bonsai::server {

// Functions within a namespace, by the name that the model knows them under.
struct NamespacedFunction {
  std::string space, name;
};
using NamespacedFunctions = std::unordered_map<std::string, NamespacedFunction>;

struct OutputForm {
  bool has_summary = false;  // what was thought is told as its summary, as clients want it that ask for one
  NamespacedFunctions functions = {};
};

class ResponseOutput {
 public:
  // An event of a stream: its type, and what else it says but for its number.
  using Tell = std::function<void(std::string_view type, Json fields)>;

  ResponseOutput(OutputForm form, Tell tell) : form_(std::move(form)), tell_(std::move(tell)) {}

  // The answer goes on; a call comes whole.
  void add(ChatPiece kind, std::string_view text);
  // It has ended; `is_cut`: before it was complete. One that says nothing is a message without text.
  void end(bool is_cut);

  // Those that are complete.
  const Json &items() const { return items_; }

 private:
  struct TextItem;
  static const TextItem kMessage, kReasoning, kSummary;

  void open(const TextItem &item);
  void close(std::string_view status);
  void add_call(const Json &call);
  Json item_json(std::string_view status, Json parts) const;
  Json part_json(std::string_view text) const;
  Json place() const;

  const OutputForm form_;
  const Tell tell_;
  Json items_ = Json::array();
  const TextItem *open_ = nullptr;  // what is not complete; null: nothing
  std::string id_, text_;           // of that
};

}  // namespace bonsai::server
