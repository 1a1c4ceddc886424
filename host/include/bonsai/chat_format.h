// Conversations without a session of their own, for whoever keeps them elsewhere and has many at once:
//
//   bonsai::ChatFormat format(engine);
//   const bonsai::ChatPrompt prompt = format.prompt({{.role = "user", .content = "What is a bonsai?"}});
//   bonsai::ChatAnswer answer(prompt);
//   batch.submit_tokens(prompt.tokens, {}, [&](std::string_view text) { return answer.push(text); }).get();
//   std::cout << answer.finish().content;
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <bonsai/chat.h>

namespace bonsai {

// A conversation as the model reads it, with the beginning of the answer that it is to go on with.
struct ChatPrompt {
  std::vector<int32_t> tokens;
  std::string begun = {};       // what the answer begins with already; ChatAnswer knows it
  bool in_reasoning = false;    // the template has begun the answer with reasoning
  bool may_call_tools = false;  // the model was given tools, and its template would show it the calls again
};

namespace host {
class ConversationFormat;
class AnswerParser;
}  // namespace host

// A model's chat template with its tokenizer; what was said of templates at Chat holds here. Every method may be called
// from any thread. Keeps what it needs of its engine alive.
class BONSAI_API ChatFormat {
 public:
  // Errors: a file without tokenizer or usable template.
  explicit ChatFormat(const Engine &engine);
  ChatFormat(ChatFormat &&) noexcept;
  ChatFormat &operator=(ChatFormat &&) noexcept;
  ~ChatFormat();

  // Errors: no message at all; text that is not UTF-8; tools or tool calls that are no JSON array; tools that the
  // template does not know; what the template refuses.
  ChatPrompt prompt(std::span<const ChatMessage> messages, const ChatOptions &options = {}) const;
  ChatPrompt prompt(std::initializer_list<ChatMessage> messages, const ChatOptions &options = {}) const;

  // Puts `text` at the beginning of the answer: the model goes on behind it. Special tokens that are spelled out in it
  // count as such. Errors: invalid UTF-8.
  ChatPrompt begin_answer(ChatPrompt prompt, std::string_view text) const;
  // Where the template has begun the answer with reasoning, ends that: for answers that a grammar or a schema holds to
  // a form, which what is thought does not have.
  ChatPrompt end_reasoning(ChatPrompt prompt) const;
  // The same if these options have a grammar or a schema, else the prompt as it is.
  ChatPrompt end_reasoning(ChatPrompt prompt, const GenerateOptions &options) const;

  // Whether the template has a variable of that name: "tools", "enable_thinking".
  bool knows(std::string_view variable) const;

 private:
  std::unique_ptr<const host::ConversationFormat> format_;
};

// Tells what an answer says from what it thinks and which tools it calls, as its text comes. Used by one thread at a
// time.
class BONSAI_API ChatAnswer {
 public:
  explicit ChatAnswer(const ChatPrompt &prompt, ChatCallback callback = {});
  ChatAnswer(ChatAnswer &&) noexcept;
  ChatAnswer &operator=(ChatAnswer &&) noexcept;
  ~ChatAnswer();

  // The text goes on. False: the callback wants no more.
  bool push(std::string_view text);
  // The text has ended: what was held back, as it could have become a tag, goes to the callback. Gives the answer.
  ChatMessage finish();

 private:
  std::unique_ptr<host::AnswerParser> parser_;
};

}  // namespace bonsai
