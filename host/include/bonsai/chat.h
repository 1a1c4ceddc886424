// A conversation with a model:
//
//   bonsai::Chat chat(engine);
//   chat.send("What is a bonsai?", {}, [](bonsai::ChatPiece, std::string_view text) {
//     return static_cast<bool>(std::cout << text << std::flush);
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <bonsai/engine.h>

namespace bonsai {

struct ChatMessage {
  std::string role;             // "system", "user", "assistant" or "tool", or another that the template shows: one
                                // that it leaves out is refused when the model is to answer
  std::string content;          // UTF-8, as all texts here
  std::string reasoning = {};   // of an assistant: what it thought before it answered
  std::string tool_calls = {};  // of an assistant: a JSON array of what it calls, [{"name": ..., "arguments": {...}},
                                // ...] or the same in OpenAI's form, [{"id": ..., "type": "function", "function":
                                // {"name": ..., "arguments": {...}}}, ...], in which templates get both. Refused, too,
                                // where the template leaves it out.
                                // Of a tool: the call that it answers, [{"id": ..., "name": ...}], which templates
                                // get as the message's tool_call_id and name. Empty: none
};

struct ChatOptions {
  std::string system = {};                   // what the model is told first; empty: nothing
  std::string tools = {};                    // a JSON array of function descriptions; empty: none
  std::optional<bool> enable_thinking = {};  // the template's variable of that name; absent: as the template likes it.
                                             // With a template without it, Chat warns in the engine's log
};

// Models that reason write it between <think> and </think> ahead of the answer; neither tag is part of a piece. Those
// that were given tools may call them between <tool_call> and </tool_call>: a call is one piece, {"name": ...,
// "arguments": {...}}, and no part of the content.
enum class ChatPiece { kReasoning, kContent, kToolCall };

// Receives an answer as it comes, in whole UTF-8 characters and never empty. Returning false ends the answer.
using ChatCallback = std::function<bool(ChatPiece kind, std::string_view text)>;

struct ChatReply {
  ChatMessage message;         // as it stands in the conversation now
  Generation generation;       // `text` and `tokens` with the tags of reasoning
  uint32_t reused_tokens = 0;  // of the conversation: what was in the session already, and was not computed again
};

namespace host {
class ChatState;
}  // namespace host

// A conversation over a session of its own. The whole of it is rendered by the model's chat template at every turn;
// what the session holds already is not computed again. What messages, tools and names spell is never read as control
// tokens: only what the template itself spells is. Used by one thread at a time.
//
// The template is the file's tokenizer.chat_template. A file without one is taken to speak ChatML if its vocabulary has
// <|im_start|> and <|im_end|>.
//
// Every method may throw EngineError, and then leaves the conversation as it was.
class BONSAI_API Chat {
 public:
  // Errors: a file without tokenizer or usable template; tools that are no JSON array, or that the template does not
  // know.
  explicit Chat(const Engine &engine, const ChatOptions &options = {});
  Chat(Chat &&) noexcept;
  Chat &operator=(Chat &&) noexcept;
  ~Chat();

  // Adds a message of the user and the model's answer. An answer that is cancelled or runs into the end of the context
  // stays as far as it came; one that is cancelled before its first piece takes the user's message with it. Errors:
  // those of Session::generate(); what the template refuses; kContextFull where the conversation does not fit, with its
  // length, the room there is, and what can be done.
  ChatReply send(std::string_view text, const GenerateOptions &options = {}, const ChatCallback &callback = {});
  // The same with any message: {.role = "tool", .content = ...} tells the model what a tool that it called has said.
  ChatReply send(ChatMessage message, const GenerateOptions &options = {}, const ChatCallback &callback = {});

  // Answers the last message once more, in place of the answer that it has. Errors: also a conversation without a
  // message to answer.
  ChatReply regenerate(const GenerateOptions &options = {}, const ChatCallback &callback = {});

  // Adds a message without an answer: one of several tools' results, an earlier conversation. respond() has the model
  // answer then.
  void add(ChatMessage message);
  ChatReply respond(const GenerateOptions &options = {}, const ChatCallback &callback = {});

  // Forgets all messages; system prompt, tools and options stay.
  void reset();
  void set_system(std::string_view text);
  void set_enable_thinking(std::optional<bool> enable);
  const ChatOptions &options() const;

  // Without the system prompt.
  std::span<const ChatMessage> messages() const;

  // System prompt, tools, options and messages as JSON, {"format": "bonsai-chat", "version": 1, ...}; load() takes the
  // place of all of them. Errors of load() name the field that is missing or wrong, or a version that is newer.
  std::string save() const;
  void load(std::string_view json);

  // Writes all of that to a file, with the tokens of the conversation and the keys and values computed for them.
  // load_session() goes on from there, on any backend and on another day, and computes none of these tokens again;
  // where it cannot have the keys and values it says so in the log and computes them (Session::load()). Errors: those
  // of Session::save() and load(); a session that was saved without a conversation.
  void save_session(const std::string &path) const;
  void load_session(const std::string &path);

  // The conversation as the model would read it next, for a person to look at.
  std::string rendered() const;

 private:
  std::unique_ptr<host::ChatState> state_;
};

}  // namespace bonsai
