// Conversations for C.
#include <bonsai/bonsai.h>
#include <bonsai/chat.h>
#include <bonsai/chat_format.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "host/c_api/arguments.h"
#include "host/c_api/generation.h"
#include "host/c_api/handles.h"
#include "host/c_api/options.h"
#include "host/c_api/outcome.h"

namespace bonsai::c_api {
namespace {

template <class Answer>
bonsai_outcome answer(bonsai_failure *failure, const Receiver &receiver, Answer ask) {
  if (receiver.generation != nullptr) *receiver.generation = nullptr;
  return guarded(failure, [&] {
    receiver.keep(
        ask([&receiver](ChatPiece kind, std::string_view text) { return receiver.receive(piece_of(kind), text); }));
  });
}

}  // namespace
}  // namespace bonsai::c_api

using namespace bonsai;
using namespace bonsai::c_api;

bonsai_outcome bonsai_chat_options_init(bonsai_chat_options *options, uint64_t struct_size) {
  return fill(options, struct_size, bonsai_chat_options{});
}

bonsai_outcome bonsai_engine_apply_template(const bonsai_engine *engine, const bonsai_message *messages,
                                            uint64_t n_messages, const bonsai_chat_options *options, int32_t *tokens,
                                            uint64_t capacity, uint64_t *n, bonsai_failure *failure) {
  return guarded(failure, [&] {
    const bonsai_engine &known = required(engine, "engine");
    const ChatFormat &format = known.format.of(*known.engine);
    const ChatPrompt prompt = format.prompt(chat_messages(messages, n_messages), chat_options(options));
    hand_out<int32_t>(prompt.tokens, tokens, capacity, n);
  });
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
