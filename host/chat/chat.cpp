// The public API: a thin object over ChatState.
#include <bonsai/chat.h>

#include <utility>

#include "host/chat/chat_state.h"

namespace bonsai {

Chat::Chat(const Engine &engine, const ChatOptions &options)
    : state_(std::make_unique<host::ChatState>(engine.state_, engine.new_session(), options)) {}
Chat::Chat(Chat &&) noexcept = default;
Chat &Chat::operator=(Chat &&other) noexcept {
  if (this != &other) host::Exclusive<host::ChatState>::release(std::exchange(state_, std::move(other.state_)));
  return *this;
}
Chat::~Chat() { host::Exclusive<host::ChatState>::release(std::move(state_)); }

ChatReply Chat::send(std::string_view text, const GenerateOptions &options, const ChatCallback &callback) {
  return state_->send({.role = "user", .content = std::string(text)}, options, callback);
}
ChatReply Chat::send(ChatMessage message, const GenerateOptions &options, const ChatCallback &callback) {
  return state_->send(std::move(message), options, callback);
}
ChatReply Chat::regenerate(const GenerateOptions &options, const ChatCallback &callback) {
  return state_->regenerate(options, callback);
}
ChatReply Chat::respond(const GenerateOptions &options, const ChatCallback &callback) {
  return state_->respond(options, callback);
}

void Chat::add(ChatMessage message) { state_->add(std::move(message)); }
void Chat::reset() { state_->reset(); }
void Chat::set_system(std::string_view text) { state_->set_system(text); }
void Chat::set_enable_thinking(std::optional<bool> enable) { state_->set_enable_thinking(enable); }
const ChatOptions &Chat::options() const { return state_->conversation().options; }
std::span<const ChatMessage> Chat::messages() const { return state_->conversation().messages; }
std::string Chat::save() const { return state_->save(); }
void Chat::load(std::string_view json) { state_->load(json); }
void Chat::save_session(const std::string &path) const { state_->save_session(path); }
void Chat::load_session(const std::string &path) { state_->load_session(path); }
std::string Chat::rendered() const { return state_->rendered_text(); }

}  // namespace bonsai
