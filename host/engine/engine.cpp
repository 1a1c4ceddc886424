// The public API: thin objects over EngineState and SessionState.
#include <bonsai/engine.h>

#include <array>
#include <memory>
#include <utility>

#include "host/engine/embedder.h"
#include "host/engine/engine_state.h"
#include "host/engine/session_state.h"

namespace bonsai {
namespace {

// A session that none of its own callbacks is about to change.
host::SessionState &idle(host::SessionState &session) {
  session.exclusive().require_idle();
  return session;
}

}  // namespace

std::string_view finish_reason_name(FinishReason reason) {
  constexpr std::array<std::string_view, 5> kNames = {"length", "end_of_text", "stop_string", "context_full",
                                                      "cancelled"};
  return kNames[static_cast<size_t>(reason)];
}

Session::Session(std::unique_ptr<host::SessionState> state) : state_(std::move(state)) {}
Session::Session(Session &&) noexcept = default;
Session &Session::operator=(Session &&other) noexcept {
  if (this != &other) host::Exclusive<host::SessionState>::release(std::exchange(state_, std::move(other.state_)));
  return *this;
}
Session::~Session() { host::Exclusive<host::SessionState>::release(std::move(state_)); }

void Session::append(std::string_view text) { idle(*state_).append_text(text); }
void Session::append_tokens(std::span<const int32_t> tokens) { idle(*state_).append_tokens(tokens); }
void Session::save(const std::string &path) const { idle(*state_).save(path); }
void Session::load(const std::string &path) { idle(*state_).load(path); }
void Session::truncate(uint32_t length) { idle(*state_).truncate(length); }
std::span<const int32_t> Session::tokens() const { return state_->tokens(); }
uint32_t Session::length() const { return state_->length(); }
uint32_t Session::room() const { return state_->room(); }

Generation Session::generate(const GenerateOptions &options, const TextCallback &callback) {
  const host::Exclusive<host::SessionState>::Hold hold(state_->exclusive());
  return host::generate(*state_, options, options.draft ? options.draft->state_ : nullptr, callback);
}

std::vector<float> Session::logits() {
  idle(*state_);
  if (state_->length() == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "empty session: there is no token to follow");
  state_->compute();
  return state_->row().logits;
}

void Session::evaluate(std::span<const int32_t> tokens, const LogitsCallback &callback) {
  const host::Exclusive<host::SessionState>::Hold hold(state_->exclusive());
  state_->evaluate(tokens, callback);
}

Engine::Engine(std::shared_ptr<host::EngineState> state) : state_(std::move(state)) {}
Engine::Engine(Engine &&) noexcept = default;
Engine &Engine::operator=(Engine &&) noexcept = default;
Engine::~Engine() = default;

Engine Engine::load(const EngineOptions &options) { return Engine(host::EngineState::load(options)); }

Session Engine::new_session() const { return Session(std::make_unique<host::SessionState>(state_)); }

Generation Engine::generate(std::string_view prompt, const GenerateOptions &options,
                            const TextCallback &callback) const {
  Session session = new_session();
  session.append(prompt);
  return session.generate(options, callback);
}

std::vector<float> Engine::embed(std::string_view text, const EmbeddingOptions &options) const {
  return embed_tokens(tokenize_to_embed(text), options);
}

std::vector<int32_t> Engine::tokenize_to_embed(std::string_view text) const {
  return host::tokens_to_embed(*state_, text);
}

std::vector<float> Engine::embed_tokens(std::span<const int32_t> tokens, const EmbeddingOptions &options) const {
  return host::embed(*state_, tokens, options);
}

std::vector<int32_t> Engine::tokenize(std::string_view text, bool parse_special) const {
  const auto special = parse_special ? text::SpecialTokens::kParse : text::SpecialTokens::kPlain;
  return host::value_or_throw(state_->require_tokenizer().encode(text, special), ErrorKind::kInvalidArgument);
}

std::vector<int32_t> Engine::tokenize_prompt(std::string_view text) const { return state_->encode(text, true); }

std::string Engine::detokenize(std::span<const int32_t> tokens, bool show_special) const {
  if (!tokens.empty()) state_->check_tokens(tokens);
  return state_->require_tokenizer().decode(tokens, show_special);
}

bool Engine::ends_text(int32_t token) const {
  state_->check_tokens({&token, 1});
  return state_->require_tokenizer().is_end_of_generation(token);
}

ModelInfo Engine::model() const {
  const model::Config &config = state_->model.config;
  return {.name = config.name,
          .vocabulary = config.vocab,
          .trained_context = config.context,
          .context = state_->context(),
          .embedding = config.hidden,
          .pooling = config.pools_last ? Pooling::kLast : Pooling::kMean,
          .sampling = state_->sampling};
}

BackendInfo Engine::backend() const { return host::describe(state_->home()); }

MemoryInfo Engine::memory() const {
  const std::shared_ptr<host::Placement> placement = state_->placement();
  const host::Device::Status status = placement->status();
  return {.weight_bytes = status.weight_bytes,
          .mapped_bytes = status.borrowed_bytes,
          .session_bytes = placement->session_bytes()};
}

bool Engine::start_profile() const {
  return host::value_or_throw(state_->placement()->profile(BONSAI_PROFILE_START)).has_value();
}

std::vector<ProfilePhase> Engine::stop_profile() const {
  const auto phases = host::value_or_throw(state_->placement()->profile(BONSAI_PROFILE_STOP));
  std::vector<ProfilePhase> result;
  for (const host::Device::Phase &phase : phases.value_or(std::vector<host::Device::Phase>()))
    result.push_back({.name = phase.name, .seconds = phase.seconds, .calls = phase.calls, .bytes = phase.bytes});
  return result;
}

}  // namespace bonsai
