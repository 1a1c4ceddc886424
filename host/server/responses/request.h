// What clients ask for by OpenAI's Responses API: https://platform.openai.com/docs/api-reference/responses/create.
#pragma once

#include <string_view>

#include "host/server/api_request.h"
#include "host/server/json_fields.h"
#include "host/server/responses/output.h"
#include "host/server/responses/store.h"

namespace bonsai::server {

struct ResponseRequest : ChatRequest {
  Json items = Json::array();      // the conversation, what earlier responses had of it included
  Json settings = Json::object();  // what a response repeats of its request
  OutputForm form;
  bool store = true;
};

// As read_chat_request() does; earlier responses and their items come from `store`. Throws ApiError.
ResponseRequest read_response_request(std::string_view body, const GenerateOptions &defaults,
                                      const ResponseStore &store);

}  // namespace bonsai::server
