// The tools in a request, and whether the answer has to call one.
#pragma once

#include <string>
#include <vector>

#include "host/server/api_request.h"
#include "host/server/json_fields.h"

namespace bonsai::server {

// The name in {"function": {"name"}}, which tools, choices of one and calls have. Throws ApiError.
std::string read_function_name(const Json &json, const std::string &where);

// "tools", "tool_choice" and "parallel_tool_calls", once the form of the answer has been read. Where a request came in
// another form, `parameters` are the fields that it had those of each tool in. Throws ApiError.
void read_tools(const JsonFields &fields, ChatRequest &request, const std::vector<std::string> &parameters = {});

}  // namespace bonsai::server
