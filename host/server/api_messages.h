// The conversation in a request, as the library has it.
#pragma once

#include <bonsai/chat.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "host/server/json_fields.h"

namespace bonsai::server {

// "messages", at least one. Throws ApiError.
std::vector<ChatMessage> read_messages(const JsonFields &request);

// The texts of an array of {"type", "text"}, one behind the other, with `between` between them: lines, as llama.cpp's
// server has it. `types`: those that are known here, the usual one first; a "refusal" has its text in a field of that
// name. Throws ApiError.
std::string read_parts(const Json &parts, const std::string &where, std::initializer_list<std::string_view> types,
                       std::string_view between = "\n");

// "arguments" of a call: a text of JSON, or what it says. What a model wrote that is no JSON stays as it was.
Json read_arguments(const JsonFields &call);

// Templates show the results of calls in the order of the messages, most of them without the calls' ids: this brings
// them into the order of the calls, whichever was ready first. Those of no call stay behind the others.
void order_results(std::vector<ChatMessage> &messages);

}  // namespace bonsai::server
