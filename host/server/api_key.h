// Who may use the API.
#pragma once

#include <string_view>

#include "host/server/http.h"

namespace bonsai::server {

// An empty key is everybody's; else the request's Authorization is to be "Bearer KEY", or its X-Api-Key the key. Throws
// ApiError.
void check_key(std::string_view key, const HttpRequest &request);

}  // namespace bonsai::server
