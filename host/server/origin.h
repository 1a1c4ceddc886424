// Which web pages may use a server: every page that a person has open can send requests to this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace bonsai::server {

enum class OriginVerdict {
  kOwn,      // no page of another site: a program, or a page from this server
  kAllowed,  // another site's page, which may read the answers
  kRefused,
};

// `origin` and `host` are the request's headers; `allowed` has origins as browsers write them, "https://chat.example",
// or "*" for all. https://fetch.spec.whatwg.org/#origin-header
OriginVerdict judge_origin(std::string_view origin, std::string_view host, const std::vector<std::string> &allowed);

}  // namespace bonsai::server
