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

// What a request's headers say of the page that sends it, and where to: Origin, Sec-Fetch-Site and Host.
// https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/
struct PageHeaders {
  std::string origin, fetch_site, host;
};

// `allowed` has origins as browsers write them, "https://chat.example", or "*" for all.
OriginVerdict judge_origin(const PageHeaders &headers, const std::vector<std::string> &allowed);

}  // namespace bonsai::server
