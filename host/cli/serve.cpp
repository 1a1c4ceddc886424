// `bonsai serve`: a model for programs and browsers.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <utility>

#include "core/base/standard_streams.h"
#include "core/base/utf8.h"
#include "host/cli/command.h"
#include "host/cli/generate_options.h"
#include "host/cli/interrupt.h"
#include "host/cli/model_options.h"
#include "host/cli/pooling_option.h"
#include "host/cli/units.h"
#include "host/server/api_service.h"
#include "host/server/http_server.h"

namespace bonsai::cli {
namespace {

Options serve_options() {
  Options options("serve", "[-m FILE] [--host ADDRESS] [--port N] [OPTIONS]",
                  "Answers over HTTP: /v1/chat/completions, /v1/responses, /v1/completions, /v1/embeddings and\n"
                  "/v1/models as in OpenAI's API, /v1/messages as in Anthropic's, /health and /metrics (Prometheus)\n"
                  "for operators, and on / a page to chat with the model. Texts are computed together. Ctrl-C and\n"
                  "SIGTERM let those under way end first; a second one does not.\n"
                  "What a request leaves open (temperature and the like) is as the options here say.\n"
                  "JSON, once it listens: {\"model\", \"url\", \"port\"}.");
  add_engine_options(options);
  add_template_option(options);
  options.value("host", "ADDRESS", "where to listen (127.0.0.1: this machine alone; 0.0.0.0: every network)");
  options.value("port", "N", "(8080); 0: one that is free");
  options.value("alias", "NAME", "the model's name for clients (the file's name)");
  options.value("api-key", "KEY", "what clients have to know (the environment variable BONSAI_API_KEY; else nothing)");
  options.values("allow-origin", "ORIGIN",
                 "let web pages of https://SITE use this server; *: those of all sites; may be repeated");
  options.value("parallel", "N", "most texts that are computed at once (16)");
  options.value("batch-tokens", "N", "most tokens in one pass of the model, at least --parallel (256, or as many)");
  options.value("kv-tokens", "N", "tokens that the KV cache holds for all texts (at most 16384, but one context)");
  options.value("max-waiting", "N", "most texts that wait behind these; further ones are refused (64)");
  options.value("max-connections", "N", "most clients at once; for one more the longest idle goes (256)");
  options.value("grace", "SECONDS", "that texts under way have when the server is to end (30)");
  options.flag("lookup", "guess at tokens that followed the last ones earlier in a text; texts stay the same");
  add_pooling_option(options);
  add_plain_generate_options(options, "for chat: until the answer ends");
  return options;
}

uint32_t count_or(const Arguments &arguments, const char *name, uint32_t least, uint32_t otherwise,
                  uint32_t most = std::numeric_limits<uint32_t>::max()) {
  return static_cast<uint32_t>(arguments.count(name, least, most).value_or(otherwise));
}

// Without blanks.
bool is_visible(char c) { return c > 0x20 && c < 0x7f; }

// Scheme, host and port as a browser writes them (RFC 6454, 6.2), since another spelling would never match.
bool is_origin(std::string_view text) {
  const size_t behind_scheme = text.find("://");
  if (behind_scheme == 0 || behind_scheme == text.npos) return false;
  const std::string_view scheme = text.substr(0, behind_scheme), site = text.substr(behind_scheme + 3);
  const auto fits = [](char c) { return is_visible(c) && c != '/' && !(c >= 'A' && c <= 'Z'); };
  if (site.empty() || !std::all_of(scheme.begin(), scheme.end(), fits) || !std::all_of(site.begin(), site.end(), fits))
    return false;
  return !(scheme == "https" && site.ends_with(":443")) && !(scheme == "http" && site.ends_with(":80"));
}

server::HttpOptions http_options(const Arguments &arguments) {
  constexpr uint32_t kMaxPort = 65535, kMaxSeconds = 24 * 3600, kMaxConnections = 60000;
  server::HttpOptions options;
  options.host = arguments.text("host").value_or(options.host);
  if (options.host.empty()) throw UsageError("--host: expected an address, found an empty text");
  if (options.host.starts_with('[') && options.host.ends_with(']'))  // as URLs have it
    options.host = options.host.substr(1, options.host.size() - 2);
  options.port = static_cast<uint16_t>(count_or(arguments, "port", 0, options.port, kMaxPort));
  options.allowed_origins = arguments.texts("allow-origin");
  for (const std::string &origin : options.allowed_origins) {
    if (origin != "*" && !is_origin(origin))
      throw UsageError(fmt::format(
          "--allow-origin: expected https://SITE as browsers send it (small letters, no path, no default port) or *, "
          "found {}",
          bonsai::quoted(origin)));
  }
  options.max_connections = count_or(arguments, "max-connections", 1, options.max_connections, kMaxConnections);
  options.grace = std::chrono::seconds(count_or(arguments, "grace", 0, 30, kMaxSeconds));
  return options;
}

// A key on the command line can be read by every user of the machine.
std::string api_key(const Arguments &arguments) {
  const char *from_environment = std::getenv("BONSAI_API_KEY");
  const auto given = arguments.text("api-key");
  if (!given && from_environment == nullptr) return "";
  const char *const where = given ? "--api-key" : "BONSAI_API_KEY";
  std::string key = given.value_or(from_environment == nullptr ? "" : from_environment);
  if (key.empty()) throw UsageError(fmt::format("{}: expected a key, found an empty text", where));
  if (!std::all_of(key.begin(), key.end(), is_visible))
    throw UsageError(fmt::format("{}: expected visible ASCII characters alone, as a header has them", where));
  return key;
}

server::ApiOptions api_options(const Arguments &arguments, const std::string &model_file) {
  constexpr uint32_t kMaxTexts = 4096, kMostBatchTokens = 1u << 20;  // BatchOptions has no more
  server::ApiOptions options;
  options.model_name = arguments.text("alias").value_or(std::filesystem::path(model_file).stem().string());
  if (options.model_name.empty()) throw UsageError("--alias: expected a name, found an empty text");
  if (find_invalid_utf8(options.model_name) != std::string::npos) options.model_name = printable(options.model_name);
  options.api_key = api_key(arguments);
  options.defaults = plain_generate_options(arguments);
  options.defaults.lookup = arguments.flag("lookup");
  if (!arguments.text("predict")) options.defaults.max_tokens = std::numeric_limits<uint32_t>::max();
  options.batch.max_sequences = count_or(arguments, "parallel", 1, options.batch.max_sequences, kMaxTexts);
  options.batch.batch_tokens =
      count_or(arguments, "batch-tokens", 1, std::max(options.batch.batch_tokens, options.batch.max_sequences),
               kMostBatchTokens);
  if (options.batch.batch_tokens < options.batch.max_sequences)
    throw UsageError(fmt::format("--batch-tokens: expected at least --parallel ({}), found {}",
                                 options.batch.max_sequences, options.batch.batch_tokens));
  options.batch.kv_tokens = count_or(arguments, "kv-tokens", 2, 0);
  options.max_waiting = count_or(arguments, "max-waiting", 0, options.max_waiting, kMaxTexts);
  options.embedding.pooling = pooling_option(arguments);
  options.embedding.batch_tokens = options.batch.batch_tokens;
  return options;
}

std::string url_of(const server::HttpOptions &options, uint16_t port) {
  const bool is_ipv6 = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", is_ipv6 ? "[" + options.host + "]" : options.host, port);
}

void announce(const std::string &model, const std::string &url, uint16_t port, const Arguments &arguments,
              const BackendInfo &backend, Terminal &terminal) {
  print_to_stderr("{} on {}{}: {}\n", printable(model), backend.name,
                  backend.device.empty() ? "" : " (" + backend.device + ")", url);
  if (arguments.flag("json")) terminal.out.write_json({{"model", model}, {"url", url}, {"port", port}});
}

void tell_of_end(const server::ApiService &service, const server::HttpOptions &options) {
  const uint32_t n = service.n_under_way();
  if (n == 0) return;
  print_to_stderr("ending: {} under way, for {} s at most; Ctrl-C again ends at once\n", counted(n, "text"),
                  std::chrono::duration_cast<std::chrono::seconds>(options.grace).count());
}

}  // namespace

int serve_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  const auto arguments = Arguments::parse(serve_options(), command_line, terminal);
  if (!arguments) return kSuccess;
  const server::HttpOptions http = http_options(*arguments);
  const EngineOptions engine_choice = engine_options(*arguments, terminal);
  server::ApiOptions api = api_options(*arguments, engine_choice.model);
  InterruptGuard interrupt;
  server::HttpServer server(http);  // before the model: an address that is taken is known at once
  const Engine engine = load_engine(engine_choice);
  follow_model(*arguments, engine, api.defaults);
  server::ApiService service(engine, api);
  const std::stop_token stop = interrupt.graceful();
  server.listen();
  announce(api.model_name, url_of(http, server.port()), server.port(), *arguments, service.backend(), terminal);
  server.run({.handler =
                  [&](server::HttpRequest request, std::shared_ptr<server::Responder> responder) {
                    service.handle(std::move(request), std::move(responder));
                  },
              .served =
                  [&](const server::Served &exchange) {
                    service.served(exchange);
                    terminal.log.info("{} {} {}{} {:.3f} s", printable(exchange.method), printable(exchange.path),
                                      exchange.status, exchange.is_cut ? ", cut off," : "", exchange.seconds);
                  },
              .stopping = [&] { tell_of_end(service, http); }},
             stop);
  return kSuccess;
}

}  // namespace bonsai::cli
