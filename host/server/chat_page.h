// The page on "/": a conversation in a browser, over this server's own API.
#pragma once

#include "host/server/http.h"

namespace bonsai::server {

// chat_page.html, and a policy by which it loads and sends nothing anywhere else.
HttpReply chat_page();

}  // namespace bonsai::server
