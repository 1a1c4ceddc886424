// Options and messages of the C API as the C++ classes take them. Errors: EngineError, also for a struct without a
// size.
#pragma once

#include <bonsai/batch_engine.h>
#include <bonsai/bonsai.h>
#include <bonsai/chat.h>
#include <bonsai/engine.h>
#include <bonsai/sampling.h>

#include <cstdint>
#include <vector>

namespace bonsai::c_api {

EngineOptions engine_options(const bonsai_engine_options &given);

// Null: the defaults.
GenerateOptions generate_options(const bonsai_generate_options *given);
int32_t priority(const bonsai_generate_options *given);
ChatOptions chat_options(const bonsai_chat_options *given);
std::vector<ChatMessage> chat_messages(const bonsai_message *messages, uint64_t n);
BatchOptions batch_options(const bonsai_batch_options *given);

// What the _init functions fill in.
bonsai_generate_options raw_defaults(const SamplingOptions &sampling);
bonsai_batch_options raw_batch_defaults();

}  // namespace bonsai::c_api
