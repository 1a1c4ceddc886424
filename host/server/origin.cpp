#include "host/server/origin.h"

#include <algorithm>

namespace bonsai::server {

// The scheme does not count: whoever speaks TLS in front of this server makes "https" of it.
OriginVerdict judge_origin(std::string_view origin, std::string_view host, const std::vector<std::string> &allowed) {
  if (origin.empty()) return OriginVerdict::kOwn;
  const size_t scheme = origin.find("://");
  if (scheme != origin.npos && !host.empty() && origin.substr(scheme + 3) == host) return OriginVerdict::kOwn;
  const bool is_allowed = std::any_of(allowed.begin(), allowed.end(),
                                      [&](const std::string &entry) { return entry == "*" || entry == origin; });
  return is_allowed ? OriginVerdict::kAllowed : OriginVerdict::kRefused;
}

}  // namespace bonsai::server
