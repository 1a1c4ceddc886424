// What is behind the C API's opaque types.
#pragma once

#include <bonsai/batch_engine.h>
#include <bonsai/bonsai.h>
#include <bonsai/chat.h>
#include <bonsai/engine.h>

#include <cstdint>
#include <memory>
#include <stop_token>

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

struct bonsai_batch {
  std::shared_ptr<const bonsai::Engine> engine;  // makes tokens of prompts
  bonsai::BatchEngine batch;
};

struct bonsai_stop {
  std::stop_source source;
};
