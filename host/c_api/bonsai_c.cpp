// The library for C: the C++ classes behind handles, their exceptions as outcomes.
#include <bonsai/bonsai.h>
#include <bonsai/chat.h>
#include <bonsai/engine.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/utf8.h"

struct bonsai_engine {
  std::shared_ptr<const bonsai::Engine> engine;
};

struct bonsai_engine_session {
  bonsai::Session session;
  uint32_t vocabulary;
};

struct bonsai_chat {
  bonsai::Chat chat;
};

struct bonsai_stop {
  std::stop_source source;
};

namespace bonsai {
namespace {

static_assert(BONSAI_FINISH_LENGTH == static_cast<int>(FinishReason::kLength));
static_assert(BONSAI_FINISH_END_OF_TEXT == static_cast<int>(FinishReason::kEndOfText));
static_assert(BONSAI_FINISH_STOP_STRING == static_cast<int>(FinishReason::kStopString));
static_assert(BONSAI_FINISH_CONTEXT_FULL == static_cast<int>(FinishReason::kContextFull));
static_assert(BONSAI_FINISH_CANCELLED == static_cast<int>(FinishReason::kCancelled));
static_assert(BONSAI_POOLING_MEAN == static_cast<int>(Pooling::kMean));
static_assert(BONSAI_POOLING_LAST == static_cast<int>(Pooling::kLast));
static_assert(BONSAI_POOLING_MODEL == static_cast<int>(Pooling::kModel));

// ---------------------------------------------------------------------------------------------------------------------
// Outcomes

// As much of a text as an array of `size` holds with a NUL behind it, in whole characters.
void copy_text(std::string_view text, char *to, size_t size) {
  if (size == 0) return;
  size_t n = std::min(text.size(), size - 1);
  const auto continues = [&text](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  while (n > 0 && n < text.size() && continues(n)) --n;
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

// A message may name a path, which is any bytes: it is handed out as one line of UTF-8.
bonsai_outcome report(bonsai_failure *failure, bonsai_outcome outcome, std::string_view message) noexcept {
  constexpr size_t kBefore = offsetof(bonsai_failure, message);
  if (failure == nullptr || failure->struct_size < kBefore) return outcome;
  const size_t room = std::min<size_t>(failure->struct_size - kBefore, sizeof failure->message);
  try {
    copy_text(printable(message), failure->message, room);
  } catch (const std::exception &) {
    outcome = BONSAI_NO_MEMORY;
    copy_text("out of memory", failure->message, room);
  }
  failure->outcome = outcome;
  if (failure->struct_size > sizeof *failure)  // what a newer caller knows of it and this library does not
    std::memset(failure + 1, 0, failure->struct_size - sizeof *failure);
  return outcome;
}

bonsai_outcome outcome_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument:
      return BONSAI_BAD_ARGUMENT;
    case ErrorKind::kModel:
      return BONSAI_BAD_MODEL;
    case ErrorKind::kBackend:
      return BONSAI_BACKEND_FAILED;
    case ErrorKind::kContextFull:
      return BONSAI_CONTEXT_FULL;
  }
  return BONSAI_FAILED;
}

// No exception may leave the library.
template <class Call>
bonsai_outcome guarded(bonsai_failure *failure, Call call) noexcept {
  try {
    call();
    return report(failure, BONSAI_SUCCESS, "");
  } catch (const EngineError &error) {
    return report(failure, outcome_of(error.kind()), error.what());
  } catch (const std::bad_alloc &) {
    return report(failure, BONSAI_NO_MEMORY, "out of memory");
  } catch (const std::exception &error) {
    return report(failure, BONSAI_FAILED, error.what());
  } catch (...) {
    return report(failure, BONSAI_FAILED, "unknown error");
  }
}

[[noreturn]] void refuse(const std::string &message) { throw EngineError(ErrorKind::kInvalidArgument, message); }

// ---------------------------------------------------------------------------------------------------------------------
// Arguments

template <class T>
T &required(T *argument, const char *name) {
  if (argument == nullptr) refuse(std::string(name) + ": expected one, found NULL");
  return *argument;
}

template <class T>
std::span<const T> array_of(const T *elements, uint64_t n, const char *name) {
  if (n > PTRDIFF_MAX / sizeof(T)) refuse(std::string(name) + ": more than memory can hold");
  if (n > 0 && elements == nullptr) refuse(std::string(name) + ": expected " + std::to_string(n) + ", found NULL");
  return {elements, n};
}

std::string_view text_of(const char *text, uint64_t n_bytes, const char *name) {
  if (n_bytes == BONSAI_TO_NUL) return &required(text, name);
  const std::span<const char> bytes = array_of(text, n_bytes, name);
  return {bytes.data(), bytes.size()};
}

std::string text_or_empty(const char *text) { return text == nullptr ? std::string() : text; }

// What both sides know of a caller's struct, the rest as in `defaults`.
template <class T>
T known_part(const T &given, const T &defaults) {
  if (given.struct_size < sizeof given.struct_size)
    refuse("struct_size: expected what the options' _init function sets, found " + std::to_string(given.struct_size));
  T known = defaults;
  std::memcpy(&known, &given, std::min<size_t>(given.struct_size, sizeof known));
  return known;
}

// A field that may come to mean something in a later version.
void require_unused(uint32_t reserved) {
  if (reserved != 0) refuse("reserved: expected 0, found " + std::to_string(reserved));
}

// Fills a caller's struct of `struct_size` bytes.
template <class T>
bonsai_outcome fill(T *options, uint64_t struct_size, const T &defaults) {
  if (options == nullptr || struct_size < sizeof options->struct_size ||
      struct_size > std::numeric_limits<uint32_t>::max())
    return BONSAI_BAD_ARGUMENT;
  std::memset(options, 0, struct_size);
  std::memcpy(options, &defaults, std::min<size_t>(struct_size, sizeof defaults));
  options->struct_size = static_cast<uint32_t>(struct_size);
  return BONSAI_SUCCESS;
}

template <class T>
void hand_out(std::span<const T> elements, T *to, uint64_t capacity, uint64_t *n) {
  array_of(to, capacity, "the array to fill");
  required(n, "n") = elements.size();
  std::copy_n(elements.begin(), std::min<uint64_t>(capacity, elements.size()), to);
}

// Before something is computed that would not fit.
void check_capacity(uint64_t capacity, uint64_t needed) {
  if (capacity < needed)
    refuse("capacity: expected at least " + std::to_string(needed) + ", found " + std::to_string(capacity));
}

// ---------------------------------------------------------------------------------------------------------------------
// Options

KvType kv_type(const char *name) {
  constexpr std::array<std::pair<std::string_view, KvType>, 3> kTypes = {
      {{"f16", KvType::kF16}, {"q8_0", KvType::kQ8_0}, {"f32", KvType::kF32}}};
  if (name == nullptr) return KvType::kF16;
  for (const auto &[known, type] : kTypes)
    if (known == name) return type;
  refuse("kv: expected f16, q8_0 or f32, found " + quoted(name));
}

std::pair<std::string, std::string> key_and_value(const char *option) {
  const std::string_view text = &required(option, "backend_options");
  const size_t at = text.find('=');
  if (at == text.npos || at == 0) refuse("backend_options: expected key=value, found " + quoted(text));
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

EngineOptions engine_options(const bonsai_engine_options &given) {
  const bonsai_engine_options raw = known_part(given, bonsai_engine_options{});
  require_unused(raw.reserved);
  EngineOptions options;
  options.model = &required(raw.model, "model");
  if (raw.backend != nullptr) options.backend = raw.backend;
  options.backend_strict = raw.backend_strict != 0;
  for (const char *option : array_of(raw.backend_options, raw.n_backend_options, "backend_options"))
    options.backend_options.push_back(key_and_value(option));
  options.threads = raw.threads;
  options.context = raw.context;
  options.kv = kv_type(raw.kv);
  if (raw.chat_template != nullptr) options.chat_template = raw.chat_template;
  if (raw.progress != nullptr)
    options.progress = [call = raw.progress, context = raw.progress_context](uint64_t done, uint64_t total) {
      call(context, done, total);
    };
  if (raw.log != nullptr)
    options.log = [call = raw.log, context = raw.log_context](LogLevel level, std::string_view line) {
      call(context, static_cast<uint32_t>(level), printable(line).c_str());
    };
  return options;
}

bonsai_generate_options raw_defaults(const SamplingOptions &sampling) {
  bonsai_generate_options raw{};
  raw.struct_size = sizeof raw;
  raw.max_tokens = GenerateOptions().max_tokens;
  raw.temperature = sampling.temperature;
  raw.top_k = sampling.top_k;
  raw.top_p = sampling.top_p;
  raw.min_p = sampling.min_p;
  raw.repetition_penalty = sampling.repetition_penalty;
  raw.presence_penalty = sampling.presence_penalty;
  raw.frequency_penalty = sampling.frequency_penalty;
  raw.penalty_window = sampling.penalty_window;
  return raw;
}

SamplingOptions sampling_options(const bonsai_generate_options &raw) {
  SamplingOptions sampling;
  sampling.temperature = raw.temperature;
  sampling.top_k = raw.top_k;
  sampling.top_p = raw.top_p;
  sampling.min_p = raw.min_p;
  sampling.repetition_penalty = raw.repetition_penalty;
  sampling.presence_penalty = raw.presence_penalty;
  sampling.frequency_penalty = raw.frequency_penalty;
  sampling.penalty_window = raw.penalty_window;
  const auto tokens = array_of(raw.bias_tokens, raw.n_logit_bias, "bias_tokens");
  const auto adds = array_of(raw.bias_adds, raw.n_logit_bias, "bias_adds");
  for (size_t i = 0; i < tokens.size(); ++i) sampling.logit_bias.push_back({tokens[i], adds[i]});
  if (raw.has_seed != 0) sampling.seed = raw.seed;
  return sampling;
}

GenerateOptions generate_options(const bonsai_generate_options *given) {
  if (given == nullptr) return {};
  const bonsai_generate_options raw = known_part(*given, raw_defaults({}));
  require_unused(raw.reserved);
  GenerateOptions options;
  options.max_tokens = raw.max_tokens;
  options.sampling = sampling_options(raw);
  for (const char *stop : array_of(raw.stops, raw.n_stops, "stops"))
    options.stop.emplace_back(&required(stop, "stops"));
  options.ignore_eos = raw.ignore_eos != 0;
  options.grammar = text_or_empty(raw.grammar);
  options.json_schema = text_or_empty(raw.json_schema);
  options.lookup = raw.lookup != 0;
  if (raw.draft != nullptr) options.draft = raw.draft->engine;
  if (raw.stop != nullptr) options.cancel = raw.stop->source.get_token();
  return options;
}

ChatOptions chat_options(const bonsai_chat_options *given) {
  if (given == nullptr) return {};
  const bonsai_chat_options raw = known_part(*given, bonsai_chat_options{});
  if (raw.thinking > BONSAI_THINKING_OFF)
    refuse("thinking: expected 0 (auto), 1 (on) or 2 (off), found " + std::to_string(raw.thinking));
  ChatOptions options;
  options.system = text_or_empty(raw.system);
  options.tools = text_or_empty(raw.tools);
  if (raw.thinking != BONSAI_THINKING_AUTO) options.enable_thinking = raw.thinking == BONSAI_THINKING_ON;
  return options;
}

// ---------------------------------------------------------------------------------------------------------------------
// Results

// With the memory that its fields point into.
struct OwnedGeneration : bonsai_generation {
  explicit OwnedGeneration(Generation made) : bonsai_generation{}, generation(std::move(made)) {
    const GenerationStats &stats = generation.stats;
    struct_size = sizeof(bonsai_generation);
    finish = static_cast<bonsai_finish>(generation.finish);
    set_texts(generation.text);
    tokens = generation.tokens.data();
    n_tokens = generation.tokens.size();
    failed_over = stats.failed_over.empty() ? nullptr : stats.failed_over.c_str();
    seed = stats.seed;
    prompt_tokens = stats.prompt_tokens;
    prompt_seconds = stats.prompt_seconds;
    decode_steps = stats.decode_steps;
    decode_passes = stats.decode_passes;
    decode_seconds = stats.decode_seconds;
  }
  explicit OwnedGeneration(ChatReply reply) : OwnedGeneration(std::move(reply.generation)) {
    message = std::move(reply.message);
    set_texts(message.content);
    reused_tokens = reply.reused_tokens;
  }
  OwnedGeneration(const OwnedGeneration &) = delete;
  OwnedGeneration &operator=(const OwnedGeneration &) = delete;

 private:
  void set_texts(const std::string &said) {
    text = said.c_str();
    n_bytes = said.size();
    reasoning = message.reasoning.c_str();
    n_reasoning_bytes = message.reasoning.size();
    tool_calls = message.tool_calls.c_str();
    n_tool_calls_bytes = message.tool_calls.size();
  }

  Generation generation;
  ChatMessage message;
};

// Who asked for a text: their callback, and where the result goes.
struct Receiver {
  bonsai_text_fn call;
  void *context;
  const bonsai_generation **generation;

  bool receive(bonsai_piece piece, std::string_view text) const {
    return call == nullptr || call(context, piece, std::string(text).c_str(), text.size()) == 0;
  }
  template <class Result>
  void keep(Result result) const {
    if (generation != nullptr) *generation = new OwnedGeneration(std::move(result));
  }
};

template <class Generate>
bonsai_outcome generate_text(bonsai_failure *failure, const Receiver &receiver, Generate generate) {
  if (receiver.generation != nullptr) *receiver.generation = nullptr;
  return guarded(failure, [&] {
    receiver.keep(generate([&receiver](std::string_view text) { return receiver.receive(BONSAI_PIECE_TEXT, text); }));
  });
}

bonsai_piece piece_of(ChatPiece kind) {
  switch (kind) {
    case ChatPiece::kReasoning:
      return BONSAI_PIECE_REASONING;
    case ChatPiece::kToolCall:
      return BONSAI_PIECE_TOOL_CALL;
    case ChatPiece::kContent:
      break;
  }
  return BONSAI_PIECE_TEXT;
}

template <class Answer>
bonsai_outcome answer(bonsai_failure *failure, const Receiver &receiver, Answer ask) {
  if (receiver.generation != nullptr) *receiver.generation = nullptr;
  return guarded(failure, [&] {
    receiver.keep(
        ask([&receiver](ChatPiece kind, std::string_view text) { return receiver.receive(piece_of(kind), text); }));
  });
}

}  // namespace
}  // namespace bonsai

using namespace bonsai;

const char *bonsai_version(void) { return BONSAI_VERSION; }

bonsai_outcome bonsai_engine_options_init(bonsai_engine_options *options, uint64_t struct_size) {
  return fill(options, struct_size, bonsai_engine_options{});
}

bonsai_outcome bonsai_engine_load(const bonsai_engine_options *options, bonsai_engine **engine,
                                  bonsai_failure *failure) {
  return guarded(failure, [&] {
    required(engine, "engine") = nullptr;
    const EngineOptions read = engine_options(required(options, "options"));
    *engine = new bonsai_engine{std::make_shared<const Engine>(Engine::load(read))};
  });
}

void bonsai_engine_free(bonsai_engine *engine) { delete engine; }

bonsai_outcome bonsai_engine_describe(const bonsai_engine *engine, bonsai_engine_info *info, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    const uint32_t size = required(info, "info").struct_size;
    if (size < sizeof size) refuse("info: struct_size is not set");
    const ModelInfo model = known.model();
    const BackendInfo backend = known.backend();
    const MemoryInfo memory = known.memory();
    bonsai_engine_info made{};
    made.struct_size = size;
    made.vocabulary = model.vocabulary;
    made.trained_context = model.trained_context;
    made.context = model.context;
    made.embedding = model.embedding;
    made.threads = backend.threads;
    made.weight_bytes = memory.weight_bytes;
    made.mapped_bytes = memory.mapped_bytes;
    made.session_bytes = memory.session_bytes;
    copy_text(printable(model.name), made.model, sizeof made.model);
    copy_text(backend.name, made.backend, sizeof made.backend);
    copy_text(backend.device, made.device, sizeof made.device);
    std::memset(info, 0, size);
    std::memcpy(info, &made, std::min<size_t>(size, sizeof made));
  });
}

bonsai_outcome bonsai_engine_tokenize(const bonsai_engine *engine, const char *text, uint64_t n_bytes,
                                      uint32_t parse_special, int32_t *tokens, uint64_t capacity, uint64_t *n,
                                      bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    const std::vector<int32_t> ids = known.tokenize(text_of(text, n_bytes, "text"), parse_special != 0);
    hand_out<int32_t>(ids, tokens, capacity, n);
  });
}

bonsai_outcome bonsai_engine_detokenize(const bonsai_engine *engine, const int32_t *tokens, uint64_t n_tokens,
                                        char *text, uint64_t capacity, uint64_t *n, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    const std::string made = known.detokenize(array_of(tokens, n_tokens, "tokens"));
    hand_out<char>(made, text, capacity, n);
  });
}

bonsai_outcome bonsai_engine_embed(const bonsai_engine *engine, const char *text, uint64_t n_bytes,
                                   bonsai_pooling pooling, float *vector, uint64_t capacity, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const Engine &known = *required(engine, "engine").engine;
    if (pooling > BONSAI_POOLING_MODEL)
      refuse("pooling: expected 0 (mean), 1 (last) or 2 (the model's), found " + std::to_string(pooling));
    float &first = required(vector, "vector");
    check_capacity(capacity, known.model().embedding);
    const EmbeddingOptions options = {.pooling = static_cast<Pooling>(pooling)};
    std::ranges::copy(known.embed(text_of(text, n_bytes, "text"), options), &first);
  });
}

bonsai_stop *bonsai_stop_new(void) {
  bonsai_stop *stop = nullptr;
  guarded(nullptr, [&stop] { stop = new bonsai_stop; });
  return stop;
}

void bonsai_stop_request(bonsai_stop *stop) {
  if (stop != nullptr) stop->source.request_stop();
}

void bonsai_stop_free(bonsai_stop *stop) { delete stop; }

bonsai_outcome bonsai_generate_options_init(bonsai_generate_options *options, uint64_t struct_size,
                                            const char *preset) {
  const auto sampling = sampling_preset(preset == nullptr ? "balanced" : preset);
  if (!sampling) return BONSAI_BAD_ARGUMENT;
  return fill(options, struct_size, raw_defaults(*sampling));
}

void bonsai_generation_free(const bonsai_generation *generation) {
  delete static_cast<const OwnedGeneration *>(generation);
}

bonsai_outcome bonsai_engine_generate(const bonsai_engine *engine, const char *prompt, uint64_t n_bytes,
                                      const bonsai_generate_options *options, bonsai_text_fn receive, void *context,
                                      const bonsai_generation **generation, bonsai_failure *failure) {
  return generate_text(failure, {receive, context, generation}, [&](const TextCallback &callback) {
    const Engine &known = *required(engine, "engine").engine;
    return known.generate(text_of(prompt, n_bytes, "prompt"), generate_options(options), callback);
  });
}

bonsai_outcome bonsai_session_new(const bonsai_engine *engine, bonsai_engine_session **session,
                                  bonsai_failure *failure) {
  return guarded(failure, [&] {
    required(session, "session") = nullptr;
    const Engine &known = *required(engine, "engine").engine;
    *session = new bonsai_engine_session{known.new_session(), known.model().vocabulary};
  });
}

void bonsai_session_free(bonsai_engine_session *session) { delete session; }

bonsai_outcome bonsai_session_append(bonsai_engine_session *session, const char *text, uint64_t n_bytes,
                                     bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.append(text_of(text, n_bytes, "text")); });
}

bonsai_outcome bonsai_session_append_tokens(bonsai_engine_session *session, const int32_t *tokens, uint64_t n_tokens,
                                            bonsai_failure *failure) {
  return guarded(failure,
                 [&] { required(session, "session").session.append_tokens(array_of(tokens, n_tokens, "tokens")); });
}

bonsai_outcome bonsai_session_generate(bonsai_engine_session *session, const bonsai_generate_options *options,
                                       bonsai_text_fn receive, void *context, const bonsai_generation **generation,
                                       bonsai_failure *failure) {
  return generate_text(failure, {receive, context, generation}, [&](const TextCallback &callback) {
    return required(session, "session").session.generate(generate_options(options), callback);
  });
}

bonsai_outcome bonsai_session_logits(bonsai_engine_session *session, float *logits, uint64_t capacity,
                                     bonsai_failure *failure) {
  return guarded(failure, [&] {
    bonsai_engine_session &known = required(session, "session");
    float &first = required(logits, "logits");
    check_capacity(capacity, known.vocabulary);
    std::ranges::copy(known.session.logits(), &first);
  });
}

uint32_t bonsai_session_length(const bonsai_engine_session *session) {
  return session == nullptr ? 0 : session->session.length();
}

uint32_t bonsai_session_room(const bonsai_engine_session *session) {
  return session == nullptr ? 0 : session->session.room();
}

bonsai_outcome bonsai_session_tokens(const bonsai_engine_session *session, int32_t *tokens, uint64_t capacity,
                                     uint64_t *n, bonsai_failure *failure) {
  return guarded(failure, [&] { hand_out(required(session, "session").session.tokens(), tokens, capacity, n); });
}

bonsai_outcome bonsai_session_truncate(bonsai_engine_session *session, uint32_t length, bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.truncate(length); });
}

bonsai_outcome bonsai_session_save(const bonsai_engine_session *session, const char *path, bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.save(&required(path, "path")); });
}

bonsai_outcome bonsai_session_load(bonsai_engine_session *session, const char *path, bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.load(&required(path, "path")); });
}

bonsai_outcome bonsai_chat_options_init(bonsai_chat_options *options, uint64_t struct_size) {
  return fill(options, struct_size, bonsai_chat_options{});
}

bonsai_outcome bonsai_chat_new(const bonsai_engine *engine, const bonsai_chat_options *options, bonsai_chat **chat,
                               bonsai_failure *failure) {
  return guarded(failure, [&] {
    required(chat, "chat") = nullptr;
    *chat = new bonsai_chat{Chat(*required(engine, "engine").engine, chat_options(options))};
  });
}

void bonsai_chat_free(bonsai_chat *chat) { delete chat; }

bonsai_outcome bonsai_chat_send(bonsai_chat *chat, const char *text, uint64_t n_bytes,
                                const bonsai_generate_options *options, bonsai_text_fn receive, void *context,
                                const bonsai_generation **generation, bonsai_failure *failure) {
  return answer(failure, {receive, context, generation}, [&](const ChatCallback &callback) {
    return required(chat, "chat").chat.send(text_of(text, n_bytes, "text"), generate_options(options), callback);
  });
}

bonsai_outcome bonsai_chat_regenerate(bonsai_chat *chat, const bonsai_generate_options *options, bonsai_text_fn receive,
                                      void *context, const bonsai_generation **generation, bonsai_failure *failure) {
  return answer(failure, {receive, context, generation}, [&](const ChatCallback &callback) {
    return required(chat, "chat").chat.regenerate(generate_options(options), callback);
  });
}

bonsai_outcome bonsai_chat_add(bonsai_chat *chat, const char *role, const char *text, uint64_t n_bytes,
                               bonsai_failure *failure) {
  return guarded(failure, [&] {
    required(chat, "chat")
        .chat.add({.role = &required(role, "role"), .content = std::string(text_of(text, n_bytes, "text"))});
  });
}

bonsai_outcome bonsai_chat_respond(bonsai_chat *chat, const bonsai_generate_options *options, bonsai_text_fn receive,
                                   void *context, const bonsai_generation **generation, bonsai_failure *failure) {
  return answer(failure, {receive, context, generation}, [&](const ChatCallback &callback) {
    return required(chat, "chat").chat.respond(generate_options(options), callback);
  });
}

bonsai_outcome bonsai_chat_reset(bonsai_chat *chat, bonsai_failure *failure) {
  return guarded(failure, [&] { required(chat, "chat").chat.reset(); });
}

bonsai_outcome bonsai_chat_save_session(const bonsai_chat *chat, const char *path, bonsai_failure *failure) {
  return guarded(failure, [&] { required(chat, "chat").chat.save_session(&required(path, "path")); });
}

bonsai_outcome bonsai_chat_load_session(bonsai_chat *chat, const char *path, bonsai_failure *failure) {
  return guarded(failure, [&] { required(chat, "chat").chat.load_session(&required(path, "path")); });
}
