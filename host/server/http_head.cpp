#include "host/server/http_head.h"

#include <boost/beast/core/string.hpp>
#include <string_view>

namespace bonsai::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

std::string text(beast::string_view view) { return {view.data(), view.size()}; }

// "/path" of "/path?query", and of "http://host/path", which clients send to proxies.
std::string path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  if (target.starts_with('/')) return std::string(target);
  const size_t scheme = target.find("://");
  if (scheme == target.npos) return std::string(target);
  const size_t path = target.find('/', scheme + 3);
  return path == target.npos ? "/" : std::string(target.substr(path));
}

}  // namespace

Result<HttpHead> read_head(const HttpParser &parser) {
  const auto &request = parser.get();
  const bool is_http_1_0 = request.version() < 11;
  if (request.count(http::field::host) > 1 || (!is_http_1_0 && request.count(http::field::host) == 0))
    return fail("expected one Host, found {}", request.count(http::field::host));
  if (const size_t n = request.count(http::field::transfer_encoding); n > 0) {
    const bool is_chunked = n == 1 && beast::iequals(request[http::field::transfer_encoding], "chunked");
    if (!is_chunked || is_http_1_0 || request.count(http::field::content_length) > 0)
      return fail("Transfer-Encoding: expected chunked, in HTTP/1.1 and without Content-Length");
  }
  HttpHead head;
  head.method = text(request.method_string());
  head.path = path_of(text(request.target()));
  head.authorization = text(request[http::field::authorization]);
  head.api_key = text(request["X-Api-Key"]);
  head.page = {.origin = text(request[http::field::origin]),
               .fetch_site = text(request["Sec-Fetch-Site"]),
               .host = text(request[http::field::host])};
  head.asked_headers = text(request[http::field::access_control_request_headers]);
  if (const auto encoding = request[http::field::content_encoding]; !beast::iequals(encoding, "identity"))
    head.encoding = text(encoding);
  head.form = {
      .is_http_1_0 = is_http_1_0, .is_head = request.method() == http::verb::head, .keep_alive = request.keep_alive()};
  head.wants_continue =
      !is_http_1_0 && !parser.is_done() && beast::iequals(request[http::field::expect], "100-continue");
  return head;
}

}  // namespace bonsai::server
