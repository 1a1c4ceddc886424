// Who may use the API.
#pragma once

#include <string_view>

namespace bonsai::server {

// `authorization`: "Bearer KEY", as the request has it. An empty key is everybody's. Throws ApiError.
void check_key(std::string_view key, std::string_view authorization);

}  // namespace bonsai::server
