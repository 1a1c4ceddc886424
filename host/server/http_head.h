// What the head of a request says, checked before anything of the body is read: nothing behind it can change that.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>

#include "core/base/result.h"
#include "host/server/http_exchange.h"
#include "host/server/origin.h"

namespace bonsai::server {

using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

struct HttpHead {
  std::string method, path;            // the path without the query
  std::string authorization, api_key;  // the latter is X-Api-Key, as Anthropic's clients send it
  PageHeaders page;
  std::string asked_headers;  // Access-Control-Request-Headers
  std::string encoding;       // Content-Encoding, where the body has one
  AnswerForm form;
  bool wants_continue = false;  // the client waits to be told before it sends the body
};

// Errors, beyond those of the parser: none or several hosts in HTTP/1.1 (RFC 9112, 3.2); a body whose length others
// could read in another way (6.1).
Result<HttpHead> read_head(const HttpParser &parser);

}  // namespace bonsai::server
