// The C API as the tests use it: handles that end themselves, and outcomes that are looked at.
#pragma once

#include <bonsai/bonsai.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/host/engine/seedling.h"

namespace bonsai::c {

constexpr const char *kPrompt = "Once upon a time";

struct Free {
  void operator()(bonsai_engine *engine) const { bonsai_engine_free(engine); }
  void operator()(bonsai_engine_session *session) const { bonsai_session_free(session); }
  void operator()(bonsai_chat *chat) const { bonsai_chat_free(chat); }
  void operator()(bonsai_batch_engine *batch) const { bonsai_batch_free(batch); }
  void operator()(bonsai_stop *stop) const { bonsai_stop_free(stop); }
  void operator()(const bonsai_generation *generation) const { bonsai_generation_free(generation); }
};
using EngineHandle = std::unique_ptr<bonsai_engine, Free>;
using SessionHandle = std::unique_ptr<bonsai_engine_session, Free>;
using ChatHandle = std::unique_ptr<bonsai_chat, Free>;
using BatchHandle = std::unique_ptr<bonsai_batch_engine, Free>;
using StopHandle = std::unique_ptr<bonsai_stop, Free>;
using GenerationHandle = std::unique_ptr<const bonsai_generation, Free>;

// What a call came to, and what it said about that.
struct Report {
  bonsai_outcome outcome = BONSAI_SUCCESS;
  std::string message;
};
template <class Call>
Report report_of(Call call) {
  bonsai_failure failure = {.struct_size = sizeof failure, .outcome = 99, .message = "nothing was said"};
  const bonsai_outcome outcome = call(&failure);
  EXPECT_EQ(failure.outcome, outcome);
  EXPECT_EQ(failure.struct_size, sizeof failure);
  return {outcome, failure.message};
}

// A call that must succeed.
template <class Call>
void succeed(Call call) {
  const Report report = report_of(call);
  EXPECT_EQ(report.outcome, uint32_t{BONSAI_SUCCESS}) << report.message;
  EXPECT_EQ(report.message, "");
}

// A call that must fail in this way, with this message.
template <class Call>
void expect_failure(bonsai_outcome outcome, const std::string &message, Call call) {
  const Report report = report_of(call);
  EXPECT_EQ(report.outcome, outcome);
  EXPECT_EQ(report.message, message);
}

inline bonsai_engine_options options_for(const char *model) {
  bonsai_engine_options options;
  EXPECT_EQ(bonsai_engine_options_init(&options, sizeof options), uint32_t{BONSAI_SUCCESS});
  options.model = model;
  return options;
}
inline bonsai_engine_options seedling() { return options_for(BONSAI_BINARY_DIR "/share/bonsai/seedling-q1_0.gguf"); }

inline EngineHandle load(const bonsai_engine_options &options = seedling()) {
  bonsai_engine *engine = nullptr;
  succeed([&](bonsai_failure *failure) { return bonsai_engine_load(&options, &engine, failure); });
  return EngineHandle(engine);
}
inline bonsai_engine_info describe(const EngineHandle &engine) {
  bonsai_engine_info info = {};
  info.struct_size = sizeof info;
  succeed([&](bonsai_failure *failure) { return bonsai_engine_describe(engine.get(), &info, failure); });
  return info;
}
inline SessionHandle new_session(const EngineHandle &engine, const std::string &text = "") {
  bonsai_engine_session *session = nullptr;
  succeed([&](bonsai_failure *failure) { return bonsai_session_new(engine.get(), &session, failure); });
  SessionHandle handle(session);
  if (!text.empty())
    succeed([&](bonsai_failure *failure) { return bonsai_session_append(session, text.data(), text.size(), failure); });
  return handle;
}
inline ChatHandle new_chat(const EngineHandle &engine, const bonsai_chat_options *options = nullptr) {
  bonsai_chat *chat = nullptr;
  succeed([&](bonsai_failure *failure) { return bonsai_chat_new(engine.get(), options, &chat, failure); });
  return ChatHandle(chat);
}

inline BatchHandle new_batch(const EngineHandle &engine, const bonsai_batch_options *options = nullptr) {
  bonsai_batch_engine *batch = nullptr;
  succeed([&](bonsai_failure *failure) { return bonsai_batch_new(engine.get(), options, &batch, failure); });
  return BatchHandle(batch);
}
inline bonsai_batch_info describe(const BatchHandle &batch) {
  bonsai_batch_info info = {};
  info.struct_size = sizeof info;
  succeed([&](bonsai_failure *failure) { return bonsai_batch_describe(batch.get(), &info, failure); });
  return info;
}

inline bonsai_batch_options batch_options() {
  bonsai_batch_options options;
  EXPECT_EQ(bonsai_batch_options_init(&options, sizeof options), uint32_t{BONSAI_SUCCESS});
  return options;
}
inline bonsai_chat_options chat_options() {
  bonsai_chat_options options;
  EXPECT_EQ(bonsai_chat_options_init(&options, sizeof options), uint32_t{BONSAI_SUCCESS});
  return options;
}
inline bonsai_generate_options preset(const char *name, uint32_t max_tokens) {
  bonsai_generate_options options;
  EXPECT_EQ(bonsai_generate_options_init(&options, sizeof options, name), uint32_t{BONSAI_SUCCESS});
  options.max_tokens = max_tokens;
  return options;
}
inline bonsai_generate_options greedily(uint32_t max_tokens) { return preset("greedy", max_tokens); }
// Greedy and never ending, so that every answer has text.
inline bonsai_generate_options talk(uint32_t max_tokens = 8) {
  bonsai_generate_options options = greedily(max_tokens);
  options.ignore_eos = 1;
  return options;
}

// Who receives a text, and ends it with the piece of that number.
struct Listener {
  std::string text, reasoning;
  int n_pieces = 0;
  int end_at = -1;

  static int32_t receive(void *context, bonsai_piece piece, const char *text, uint64_t n_bytes) {
    Listener &listener = *static_cast<Listener *>(context);
    EXPECT_GT(n_bytes, 0u);
    EXPECT_EQ(text[n_bytes], '\0');
    (piece == BONSAI_PIECE_REASONING ? listener.reasoning : listener.text).append(text, n_bytes);
    return ++listener.n_pieces == listener.end_at ? 1 : 0;
  }
};

// A generation that must succeed, by a call that is given where to put it.
template <class Call>
GenerationHandle generated(Call call) {
  const bonsai_generation *generation = nullptr;
  succeed([&](bonsai_failure *failure) { return call(&generation, failure); });
  return GenerationHandle(generation);
}
inline GenerationHandle generate(const EngineHandle &engine, const std::string &prompt,
                                 const bonsai_generate_options &options, Listener *listener = nullptr) {
  return generated([&](const bonsai_generation **generation, bonsai_failure *failure) {
    return bonsai_engine_generate(engine.get(), prompt.data(), prompt.size(), &options,
                                  listener == nullptr ? nullptr : &Listener::receive, listener, generation, failure);
  });
}
inline GenerationHandle generate(const SessionHandle &session, const bonsai_generate_options &options,
                                 Listener *listener = nullptr) {
  return generated([&](const bonsai_generation **generation, bonsai_failure *failure) {
    return bonsai_session_generate(session.get(), &options, listener == nullptr ? nullptr : &Listener::receive,
                                   listener, generation, failure);
  });
}
inline GenerationHandle send(const ChatHandle &chat, const std::string &text, const bonsai_generate_options &options,
                             Listener *listener = nullptr) {
  return generated([&](const bonsai_generation **generation, bonsai_failure *failure) {
    return bonsai_chat_send(chat.get(), text.data(), text.size(), &options,
                            listener == nullptr ? nullptr : &Listener::receive, listener, generation, failure);
  });
}

inline std::string text_of(const GenerationHandle &generation) {
  EXPECT_EQ(generation->text[generation->n_bytes], '\0');
  return {generation->text, generation->n_bytes};
}
inline std::string reasoning_of(const GenerationHandle &generation) {
  EXPECT_EQ(generation->reasoning[generation->n_reasoning_bytes], '\0');
  return {generation->reasoning, generation->n_reasoning_bytes};
}
inline std::vector<int32_t> tokens_of(const GenerationHandle &generation) {
  return {generation->tokens, generation->tokens + generation->n_tokens};
}

// The context of a callback that frees what it belongs to, which it does once.
template <class Handle>
int32_t free_handle(void *context, bonsai_piece, const char *, uint64_t) {
  static_cast<Handle *>(context)->reset();
  return 0;
}

// The path of a file of the running test's own, gone with this object.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string &name)
      : path_(testing::TempDir() + "/bonsai-c-" + name + "-" + std::to_string(getpid())) {}
  ScratchFile(const ScratchFile &) = delete;
  ScratchFile &operator=(const ScratchFile &) = delete;
  ~ScratchFile() { std::filesystem::remove(path_); }
  const std::string &path() const { return path_; }
  const char *c_str() const { return path_.c_str(); }

 private:
  std::string path_;
};

}  // namespace bonsai::c
