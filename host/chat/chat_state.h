// What is behind bonsai::Chat.
#pragma once

#include <bonsai/chat.h>

#include <memory>
#include <string>
#include <vector>

#include "host/chat/conversation_format.h"
#include "host/chat/saved_chat.h"
#include "host/engine/engine_state.h"
#include "host/engine/exclusive.h"

namespace bonsai::host {

// All functions throw EngineError, and then leave the conversation as it was.
class ChatState {
 public:
  ChatState(std::shared_ptr<const EngineState> engine, Session session, const ChatOptions &options);

  Exclusive<ChatState> &exclusive() { return exclusive_; }
  const Conversation &conversation() const { return conversation_; }
  void set_system(std::string_view text);
  void set_enable_thinking(std::optional<bool> enable);
  void add(ChatMessage message);
  void reset();
  void load(std::string_view json);
  std::string save() const;
  void save_session(const std::string &path) const;
  void load_session(const std::string &path);

  ChatReply send(ChatMessage message, const GenerateOptions &options, const ChatCallback &callback);
  ChatReply regenerate(const GenerateOptions &options, const ChatCallback &callback);
  ChatReply respond(const GenerateOptions &options, const ChatCallback &callback);
  std::string rendered_text() const { return format_.render(conversation_.messages, conversation_.options).text; }

 private:
  void check(const ChatOptions &options) const;
  void warn_of_thinking(const ChatOptions &options) const;
  Conversation read(std::string_view json) const;
  void bring_to_session(const std::vector<int32_t> &tokens);
  ChatReply answer(const GenerateOptions &options, const ChatCallback &callback);

  Exclusive<ChatState> exclusive_{"chat"};
  std::shared_ptr<const EngineState> engine_;
  ConversationFormat format_;
  Session session_;
  Conversation conversation_;
};

}  // namespace bonsai::host
