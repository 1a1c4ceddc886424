#include "host/server/api_service.h"

#include <bonsai/chat_format.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/utf8.h"
#include "host/server/anthropic/job.h"
#include "host/server/anthropic/request.h"
#include "host/server/api_error.h"
#include "host/server/api_key.h"
#include "host/server/api_request.h"
#include "host/server/api_response.h"
#include "host/server/chat_page.h"
#include "host/server/choices_job.h"
#include "host/server/given_schemas.h"
#include "host/server/metrics.h"
#include "host/server/places.h"
#include "host/server/responses/job.h"
#include "host/server/responses/request.h"
#include "host/server/responses/store.h"
#include "host/server/routes.h"
#include "host/server/work_queue.h"

namespace bonsai::server {
namespace {

constexpr size_t kStoreRoom = size_t{64} << 20;  // bytes of responses that are kept
constexpr size_t kReaders = 2;                   // threads that read requests: a long one does not hold up the next

// RFC 3986, 2.1. What is no escape stays.
std::string percent_decoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef0123456789ABCDEF";
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t high = text[i] == '%' && i + 2 < text.size() ? kDigits.find(text[i + 1]) : text.npos;
    const size_t low = high == text.npos ? text.npos : kDigits.find(text[i + 2]);
    decoded += low == text.npos ? text[i] : static_cast<char>(high % 16 * 16 + low % 16);
    if (low != text.npos) i += 2;
  }
  return decoded;
}

}  // namespace

class ApiService::Impl {
 public:
  Impl(const Engine &engine, const ApiOptions &options)
      : engine_(engine),
        options_(options),
        format_(format_of(engine, no_format_)),
        writer_("that writes answers", 1, n_places(options)),
        batch_(engine, options.batch),
        places_(n_places(options), "places"),
        embedder_("that embeds texts", 1,
                  size_t{1} + options.max_waiting),  // one that is about to be taken has a place
        grammar_places_((n_places(options) + 1) / 2, "places of those whose grammar is new"),
        grammars_("that reads grammars", 1, grammar_places_.n()),
        readers_("that reads requests", kReaders, n_places(options)) {
    check_defaults();
  }
  ~Impl() { ending_.request_stop(); }

  void handle(HttpRequest request, std::shared_ptr<Responder> responder) {
    answering(responder, [&] { dispatch(std::move(request), responder); });
  }

  void served(const Served &served) {
    metrics_.count_exchange(routes().name_of(served.path), served.is_cut ? 0 : served.status, served.seconds);
  }

  uint32_t n_under_way() const { return places_.n_taken(); }
  BackendInfo backend() const { return batch_.backend(); }

 private:
  using Responding = std::shared_ptr<Responder>;

  static uint32_t n_places(const ApiOptions &options) { return options.batch.max_sequences + options.max_waiting; }

  // What clients may ask for. A handler runs on the server's thread and does not take long.
  using Handler = void (Impl::*)(HttpRequest request, const Responding &responder);
  static constexpr std::string_view kModels = "/v1/models/", kResponses = "/v1/responses/";  // and a name behind
  static Routes<Handler> routes() {
    static constexpr Route<Handler> kAll[] = {{"GET", "/", true, &Impl::page},
                                              {"GET", "/health", true, &Impl::health},
                                              {"GET", "/v1/health", true, &Impl::health},
                                              {"GET", "/metrics", false, &Impl::metrics},
                                              {"GET", "/props", false, &Impl::properties},
                                              {"GET", "/v1/models", false, &Impl::models},
                                              {"GET", kModels, false, &Impl::model},
                                              {"POST", "/v1/chat/completions", false, &Impl::chat},
                                              {"POST", "/v1/responses", false, &Impl::respond},
                                              {"POST", "/v1/responses/input_tokens", false, &Impl::count_input_tokens},
                                              {"GET", kResponses, false, &Impl::kept_response},
                                              {"DELETE", kResponses, false, &Impl::drop_response},
                                              {"POST", "/v1/messages", false, &Impl::write_message},
                                              {"POST", "/v1/messages/count_tokens", false, &Impl::count_tokens},
                                              {"POST", "/v1/completions", false, &Impl::complete},
                                              {"POST", "/v1/embeddings", false, &Impl::embed},
                                              {"POST", "/tokenize", false, &Impl::tokenize},
                                              {"POST", "/detokenize", false, &Impl::detokenize},
                                              {"POST", "/apply-template", false, &Impl::apply_template}};
    return Routes<Handler>(kAll);
  }
  static std::string name_behind(std::string_view path, const HttpRequest &request) {
    return percent_decoded(std::string_view(request.path).substr(path.size()));
  }

  // What is wrong with them would be wrong with every request. A request is checked before it is computed, and this one
  // has been cancelled by then.
  void check_defaults() {
    std::stop_source stop;
    stop.request_stop();
    GenerateOptions options = options_.defaults;
    options.cancel = stop.get_token();
    constexpr int32_t kAnyToken = 0;
    try {
      batch_.submit_tokens({&kAnyToken, 1}, options).get();
    } catch (const EngineError &error) {
      if (error.kind() == ErrorKind::kInvalidArgument) throw;
    }
  }

  // A model without a usable template, for which `why` has the reason, can continue texts.
  static std::optional<ChatFormat> format_of(const Engine &engine, std::string &why) {
    try {
      return ChatFormat(engine);
    } catch (const EngineError &error) {
      why = error.what();
      return std::nullopt;
    }
  }

  // An error is the answer.
  template <class Action>
  static void answering(const Responding &responder, Action action) {
    try {
      action();
    } catch (const std::exception &error) {
      responder->reply(error_reply(to_api_error(error), responder->error_types()));
    }
  }

  void dispatch(HttpRequest request, const Responding &responder) {
    const Route<Handler> *route = routes().find(request.path, request.method);
    if (route == nullptr) throw ApiError(routes().no_such_path(request.path), 404);
    const std::string methods = routes().methods_at(request.path);
    if (request.method == "OPTIONS")
      return responder->reply({.status = 204, .headers = {{"Allow", methods + ", OPTIONS"}}});
    if (!route->is_public) check_key(options_.api_key, request);
    if (!route->takes(request.method)) {
      const std::string found = bonsai::printable(request.method);
      HttpReply reply = error_reply(ApiError(fmt::format("{} takes {}, found {}", route->path, methods, found), 405),
                                    responder->error_types());
      reply.headers.emplace_back("Allow", methods);
      return responder->reply(std::move(reply));
    }
    (this->*route->handler)(std::move(request), responder);
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What is known at once

  void page(HttpRequest, const Responding &responder) { responder->reply(chat_page()); }

  void health(HttpRequest, const Responding &responder) { responder->reply({.body = "{\"status\": \"ok\"}\n"}); }

  void metrics(HttpRequest, const Responding &responder) {
    responder->reply(
        {.body = metrics_.text(batch_.stats(), batch_.backend()), .content_type = "text/plain; version=0.0.4"});
  }

  Json model_json() const {
    return server::model_json(options_.model_name, started_, engine_.model(), batch_.stats().context);
  }

  void models(HttpRequest, const Responding &responder) {
    responder->reply({.body = to_line({{"object", "list"}, {"data", Json::array({model_json()})}}) + "\n"});
  }

  void model(HttpRequest request, const Responding &responder) {
    const std::string name = name_behind(kModels, request);
    if (name.empty()) return models(std::move(request), responder);
    if (name != options_.model_name)
      throw ApiError(fmt::format("no such model: expected {}, found {}", bonsai::quoted(options_.model_name),
                                 bonsai::quoted(name)),
                     404, "model_not_found");
    responder->reply({.body = to_line(model_json()) + "\n"});
  }

  void kept_response(HttpRequest request, const Responding &responder) {
    const auto response = responses_.response(name_behind(kResponses, request));
    if (!response) throw no_such_response(request);
    responder->reply({.body = *response + "\n"});
  }

  void drop_response(HttpRequest request, const Responding &responder) {
    const std::string id = name_behind(kResponses, request);
    if (!responses_.drop(id)) throw no_such_response(request);
    responder->reply({.body = to_line({{"id", id}, {"object", "response"}, {"deleted", true}}) + "\n"});
  }

  // What OpenAI's has behind an id, such as /input_items, is not there.
  static ApiError no_such_response(const HttpRequest &request) {
    if (request.path.find('/', kResponses.size()) != std::string::npos)
      return ApiError(fmt::format("no such path: {}", bonsai::printable(request.path)), 404);
    return ApiError(fmt::format("there is no response {}, or it is not kept any more",
                                bonsai::quoted(name_behind(kResponses, request))),
                    404);
  }

  // What clients of llama.cpp's server look up there before they ask for anything.
  void properties(HttpRequest, const Responding &responder) {
    const Json properties = {{"default_generation_settings", {{"n_ctx", batch_.stats().context}}},
                             {"total_slots", options_.batch.max_sequences},
                             {"model_alias", options_.model_name},
                             {"build_info", "bonsai " BONSAI_VERSION}};
    responder->reply({.body = to_line(properties) + "\n"});
  }

  // -------------------------------------------------------------------------------------------------------------------
  // What takes its time

  // The request is read, and goes on, elsewhere.
  template <class Action>
  void push(WorkQueue &queue, const Responding &responder, Action action) {
    const bool taken = queue.try_push([responder, action = std::move(action)] {
      if (!responder->gone().stop_requested()) answering(responder, action);
    });
    if (!taken) throw ApiError("too many requests are waiting: try again later", 503);
  }

  JobContext context() { return {engine_, batch_, metrics_, writer_}; }

  AnswerHead head(std::string_view id, std::string_view object, const TextRequest &wanted) const {
    return {.id = make_id(id),
            .object = std::string(object),
            .model = options_.model_name,
            .created = std::time(nullptr),
            .announces_usage = wanted.stream && wanted.include_usage};
  }

  // A grammar that is new takes up to seconds to be read, for which nobody else waits.
  template <class Request>
  void start(const Responding &responder, const std::shared_ptr<TextJob> &job, const Request &wanted,
             std::vector<std::vector<int32_t>> prompts) {
    const TextRequest &request = wanted;
    const uint32_t n_answers = request.n * static_cast<uint32_t>(prompts.size());
    auto begin = [this, job, request, given = schemas_of(wanted),
                  prompts = std::move(prompts)](std::shared_ptr<void> place) {
      naming_schemas(given, [&] { batch_.read_grammar(request.options); });
      place = nullptr;  // before whoever waits is answered, and may want it
      job->start(request, prompts);
    };
    if (batch_.knows_grammar(request.options)) return begin(nullptr);
    // It goes when the grammar has been read or refused, not with the piece of work.
    const auto place =
        std::make_shared<std::shared_ptr<void>>(grammar_places_.take(std::min(n_answers, grammar_places_.n())));
    push(grammars_, responder, [begin = std::move(begin), place] { begin(std::exchange(*place, nullptr)); });
  }

  void chat(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      ChatRequest wanted = read_chat_request(body, options_.defaults);
      check_format();
      auto place = places_.take(wanted.n);
      const ChatPrompt prompt = prompt_for(wanted);
      const auto object = wanted.stream ? "chat.completion.chunk" : "chat.completion";
      start(responder,
            std::make_shared<ChatJob>(context(), responder, head("chatcmpl-", object, wanted), std::move(place), prompt,
                                      wanted),
            wanted, {prompt.tokens});
    });
  }

  void respond(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      ResponseRequest wanted = read_response_request(body, options_.defaults, responses_);
      check_format();
      auto place = places_.take(wanted.n);
      const ChatPrompt prompt = prompt_for(wanted);
      start(responder,
            std::make_shared<ResponseJob>(context(), responder, std::move(place), prompt, wanted, options_.model_name,
                                          responses_),
            wanted, {prompt.tokens});
    });
  }

  void count_input_tokens(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      ResponseRequest wanted = read_response_request(body, options_.defaults, responses_);
      check_format();
      const size_t n = prompt_for(wanted).tokens.size();
      responder->reply({.body = to_line({{"object", "response.input_tokens"}, {"input_tokens", n}}) + "\n"});
    });
  }

  void write_message(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      MessagesRequest wanted = read_messages_request(body, options_.defaults);
      auto place = places_.take(wanted.n);
      const ChatPrompt prompt = prompt_of_messages(wanted);
      start(responder,
            std::make_shared<MessageJob>(context(), responder, std::move(place), prompt, wanted, options_.model_name),
            wanted, {prompt.tokens});
    });
  }

  void count_tokens(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      MessagesRequest wanted = read_messages_request(body, options_.defaults);
      responder->reply({.body = to_line({{"input_tokens", prompt_of_messages(wanted).tokens.size()}}) + "\n"});
    });
  }

  // Only what asks for it is thought about first.
  ChatPrompt prompt_of_messages(ChatRequest &wanted) const {
    check_format();
    if (!wanted.chat.enable_thinking && format_->knows("enable_thinking")) wanted.chat.enable_thinking = false;
    return prompt_for(wanted);
  }

  void check_format() const {
    if (!format_) throw ApiError(fmt::format("{} (/v1/completions continues texts)", no_format_));
  }

  // A call that has to be is begun for the model, which then can only go on with it.
  ChatPrompt prompt_for(ChatRequest &wanted) const {
    ChatPrompt prompt = format_->prompt(wanted.messages, wanted.chat);
    if (!wanted.call_schema.empty()) {
      if (!prompt.may_call_tools) throw ApiError("tool_choice: the model's chat template knows no calls of tools");
      wanted.options.json_schema = wanted.call_schema;
    }
    if (!prompt.may_call_tools) wanted.options.call_schema.clear();
    prompt = format_->end_reasoning(std::move(prompt), wanted.options);
    if (!wanted.call_schema.empty()) prompt = format_->begin_answer(std::move(prompt), "<tool_call>\n");
    return prompt;
  }

  void complete(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      const CompletionRequest wanted = read_completion_request(body, options_.defaults);
      auto place = places_.take(wanted.n * static_cast<uint32_t>(wanted.prompts.size()));
      std::vector<std::vector<int32_t>> prompts;
      std::vector<Echo> echoes;
      for (const Prompt &prompt : wanted.prompts) {
        naming("prompt", prompts.size(), wanted.prompts.size(), [&] {
          prompts.push_back(tokens_of(prompt));
          if (wanted.echo) echoes.push_back(echo_of(prompt, prompts.back()));
        });
      }
      start(responder,
            std::make_shared<CompletionJob>(context(), responder, head("cmpl-", "text_completion", wanted),
                                            std::move(place), std::move(echoes)),
            wanted, std::move(prompts));
    });
  }

  std::vector<int32_t> tokens_of(const Prompt &prompt) const {
    if (const auto *tokens = std::get_if<std::vector<int32_t>>(&prompt)) return known(*tokens);
    return engine_.tokenize_prompt(std::get<std::string>(prompt));
  }

  // As the engine would say it later, when it no longer is of the prompt alone.
  const std::vector<int32_t> &known(const std::vector<int32_t> &tokens) const {
    const uint32_t n = engine_.model().vocabulary;
    const auto is_known = [n](int32_t token) { return static_cast<uint32_t>(token) < n; };
    const auto unknown = std::find_if_not(tokens.begin(), tokens.end(), is_known);
    if (unknown != tokens.end())
      throw EngineError(ErrorKind::kInvalidArgument,
                        fmt::format("token id {} is outside the vocabulary of {}", *unknown, n));
    return tokens;
  }

  Echo echo_of(const Prompt &prompt, const std::vector<int32_t> &tokens) const {
    const auto *text = std::get_if<std::string>(&prompt);
    if (text == nullptr) return {.text = engine_.detokenize(tokens, true), .tokens = tokens};
    return {.text = *text, .tokens = tokens, .n_hidden = tokens.size() - engine_.tokenize(*text).size()};
  }

  std::vector<int32_t> tokens_to_embed(const Prompt &input) const {
    if (const auto *tokens = std::get_if<std::vector<int32_t>>(&input)) return *tokens;
    return engine_.tokenize_to_embed(std::get<std::string>(input));
  }

  // One after the other: texts that are generated meanwhile go on between its batches.
  void embed(HttpRequest request, const Responding &responder) {
    push(embedder_, responder, [this, responder, body = std::move(request.body)] {
      const EmbeddingRequest wanted = read_embedding_request(body);
      if (const uint32_t width = engine_.model().embedding; wanted.dimensions.value_or(width) != width)
        throw ApiError(
            fmt::format("dimensions: expected {}, which this model gives, found {}", width, *wanted.dimensions));
      std::stop_source stop;
      const auto request_stop = [&stop] { stop.request_stop(); };
      const std::stop_callback with_client(responder->gone(), request_stop);
      const std::stop_callback with_service(ending_.get_token(), request_stop);
      EmbeddingOptions options = options_.embedding;
      options.cancel = stop.get_token();
      std::vector<std::vector<int32_t>> inputs;  // all, before the first is computed: one that is refused costs no more
      uint64_t n_tokens = 0;
      const auto each_input = [&](const auto &action) {
        for (size_t i = 0; i < wanted.inputs.size() && !stop.stop_requested(); ++i)
          naming("input", i, wanted.inputs.size(), [&] { action(i); });
      };
      each_input([&](size_t i) {
        inputs.push_back(tokens_to_embed(wanted.inputs[i]));
        n_tokens += inputs.back().size();
      });
      std::string embeddings;
      each_input([&](size_t i) {
        if (i > 0) embeddings += ',';
        embeddings += embedding_json(engine_.embed_tokens(inputs[i], options), i, wanted.is_base64);
      });
      if (stop.stop_requested()) return;
      metrics_.count_embedding(n_tokens);
      responder->reply({.body = embeddings_json(embeddings, options_.model_name, n_tokens) + "\n"});
    });
  }

  void tokenize(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      const TokenizeRequest wanted = read_tokenize_request(body);
      const Json tokens = wanted.begins ? engine_.tokenize_prompt(wanted.content)
                                        : engine_.tokenize(wanted.content, wanted.has_special);
      responder->reply({.body = to_line({{"tokens", tokens}}) + "\n"});
    });
  }

  void detokenize(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      const std::string text = engine_.detokenize(read_detokenize_request(body), true);
      responder->reply({.body = to_line({{"content", text}}) + "\n"});
    });
  }

  void apply_template(HttpRequest request, const Responding &responder) {
    push(readers_, responder, [this, responder, body = std::move(request.body)] {
      ChatRequest wanted = read_chat_request(body, options_.defaults);
      check_format();
      const std::string text = text_to_continue(prompt_for(wanted).tokens);
      responder->reply({.body = to_line({{"prompt", text}}) + "\n"});
    });
  }

  // Without a BOS of the template's where /v1/completions puts one in front itself.
  std::string text_to_continue(std::span<const int32_t> tokens) const {
    std::string text = engine_.detokenize(tokens, true);
    const std::vector<int32_t> read = engine_.tokenize_prompt(text);
    const bool is_doubled = read.size() > tokens.size() && std::equal(tokens.begin(), tokens.end(), read.begin() + 1) &&
                            read.front() == tokens.front();
    return is_doubled ? engine_.detokenize(tokens.subspan(1), true) : text;
  }

  const Engine &engine_;
  const ApiOptions options_;
  const int64_t started_ = std::time(nullptr);
  std::string no_format_;  // why there is none
  const std::optional<ChatFormat> format_;
  Metrics metrics_;
  ResponseStore responses_{kStoreRoom};
  WorkQueue writer_;
  BatchEngine batch_;  // ends texts that are under way, which then want to be written
  Places places_;
  std::stop_source ending_;  // for what is embedded
  WorkQueue embedder_;
  Places grammar_places_;  // the others are for answers that need none read
  WorkQueue grammars_;
  WorkQueue readers_;  // which fill the others, end first
};

ApiService::ApiService(const Engine &engine, const ApiOptions &options)
    : impl_(std::make_unique<Impl>(engine, options)) {}
ApiService::~ApiService() = default;
void ApiService::handle(HttpRequest request, std::shared_ptr<Responder> responder) {
  impl_->handle(std::move(request), std::move(responder));
}
uint32_t ApiService::n_under_way() const { return impl_->n_under_way(); }
BackendInfo ApiService::backend() const { return impl_->backend(); }
void ApiService::served(const Served &served) { impl_->served(served); }

}  // namespace bonsai::server
