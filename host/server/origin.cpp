#include "host/server/origin.h"

#include <algorithm>

namespace bonsai::server {

// The scheme does not count: whoever speaks TLS in front of this server makes "https" of it, and may write another Host
// than the page's. Browsers say of what they send by TLS whether it goes where the page came from, and no page can have
// them say so.
OriginVerdict judge_origin(const PageHeaders &headers, const std::vector<std::string> &allowed) {
  const std::string_view origin = headers.origin, host = headers.host;
  if (origin.empty() || headers.fetch_site == "same-origin") return OriginVerdict::kOwn;
  const size_t scheme = origin.find("://");
  if (scheme != origin.npos && !host.empty() && origin.substr(scheme + 3) == host) return OriginVerdict::kOwn;
  const bool is_allowed = std::any_of(allowed.begin(), allowed.end(),
                                      [&](const std::string &entry) { return entry == "*" || entry == origin; });
  return is_allowed ? OriginVerdict::kAllowed : OriginVerdict::kRefused;
}

}  // namespace bonsai::server
