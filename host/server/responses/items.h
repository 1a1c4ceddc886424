// Conversations in the items of OpenAI's Responses API: https://platform.openai.com/docs/api-reference/responses.
#pragma once

#include <bonsai/chat.h>

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/server/json_fields.h"

namespace bonsai::server {

// The name of a function as the model knows it.
std::string name_in_space(std::string_view space, std::string_view name);

// Turns them into messages as the library has them. What the assistant thought, said and called is an item each there,
// and one message here.
class ItemReader {
 public:
  // A message, reasoning, a call of a function or what came of one. Throws ApiError.
  void add(const Json &item, const std::string &where);
  std::vector<ChatMessage> messages() &&;

 private:
  // Of a message of the assistant.
  enum class Part { kReasoning, kContent, kCall };

  void add_message(const JsonFields &fields);
  void add_call(const JsonFields &fields);
  void add_result(const JsonFields &fields);
  ChatMessage &answer(Part part);
  void end_answer();

  std::vector<ChatMessage> messages_;
  bool in_answer_ = false;  // the last message is the assistant's, and may go on
  Part last_ = Part::kReasoning;
  Json calls_ = Json::array();                          // of the answer
  std::unordered_map<std::string, std::string> names_;  // of the functions called, by the calls' ids
};

}  // namespace bonsai::server
