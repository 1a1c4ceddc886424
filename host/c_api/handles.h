// What is behind the C API's opaque types.
#pragma once

#include <bonsai/batch_engine.h>
#include <bonsai/bonsai.h>
#include <bonsai/chat.h>
#include <bonsai/chat_format.h>
#include <bonsai/engine.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>

namespace bonsai::c_api {

// An engine's chat template, read when it is first asked for; many may ask at once.
class LazyChatFormat {
 public:
  // Errors: those of ChatFormat, each time.
  const ChatFormat &of(const Engine &engine) {
    std::call_once(first_, [&] { format_.emplace(engine); });
    return *format_;
  }

 private:
  std::once_flag first_;
  std::optional<ChatFormat> format_;
};

}  // namespace bonsai::c_api

struct bonsai_engine {
  std::shared_ptr<const bonsai::Engine> engine;
  mutable bonsai::c_api::LazyChatFormat format = {};
};

struct bonsai_engine_session {
  bonsai::Session session;
  uint32_t vocabulary;
};

struct bonsai_chat {
  bonsai::Chat chat;
};

struct bonsai_batch_engine {
  std::shared_ptr<const bonsai::Engine> engine;  // makes tokens of prompts
  bonsai::c_api::LazyChatFormat format = {};
  bonsai::BatchEngine batch;  // the last: until it is destroyed, callbacks run that use what is above
};

struct bonsai_stop {
  std::stop_source source;
};
