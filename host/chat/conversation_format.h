// What is behind bonsai::ChatFormat, and what every conversation is rendered by.
#pragma once

#include <bonsai/chat_format.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "host/chat/template_of.h"
#include "host/engine/engine_state.h"

namespace bonsai::host {

// Errors as EngineError: `what` is not UTF-8, with the offset.
void check_utf8(std::string_view what, std::string_view text);

// Immutable. Every method may be called from any thread; all but knows() throw EngineError.
class ConversationFormat {
 public:
  explicit ConversationFormat(std::shared_ptr<const EngineState> engine);

  const EngineState &engine() const { return *engine_; }

  void check(const ChatOptions &options) const;
  static void check(const ChatMessage &message);

  // Both have been checked.
  jinja::Rendered render(std::span<const ChatMessage> messages, const ChatOptions &options) const;
  ChatPrompt prompt(std::span<const ChatMessage> messages, const ChatOptions &options) const;

  ChatPrompt begin_answer(ChatPrompt prompt, std::string_view text) const;
  ChatPrompt end_reasoning(ChatPrompt prompt) const;
  ChatPrompt end_reasoning(ChatPrompt prompt, const GenerateOptions &options) const;

  bool knows(std::string_view variable) const { return template_.chat_template.mentions(variable); }

  // For errors: EngineOptions may have another in the model's place.
  std::string_view name_of_template() const;

 private:
  struct Rendering {
    bool has_null_beside_calls;  // in place of empty content
    jinja::Limits limits;
  };
  struct ShownCalls {
    bool need_null;  // some templates look for OpenAI's null to find calls
    bool alone;
    bool beside_content;
  };

  jinja::Rendered render(std::span<const ChatMessage> messages, const ChatOptions &options, const Rendering &how) const;
  std::optional<std::string> text_if_rendered(std::span<const ChatMessage> messages, const ChatOptions &options,
                                              const Rendering &how) const;
  Rendering rendering_of(std::span<const ChatMessage> messages) const;

  // What the template shows of calls. It is tried when that is first asked.
  ShownCalls shown_calls() const;
  bool shows_calls(std::string_view content, const Rendering &how) const;
  // Or mentions them: not every template can be tried.
  bool knows_calls() const;

  // Throws where the template leaves out what a role says that templates need not know.
  void check_roles(std::span<const ChatMessage> messages, const ChatOptions &options, const Rendering &how,
                   std::string_view rendered) const;
  // Throws where it leaves out which tools were called.
  void check_calls(std::span<const ChatMessage> messages, const ChatOptions &options, const Rendering &how,
                   std::string_view rendered) const;

  std::shared_ptr<const EngineState> engine_;
  ModelTemplate template_;
  mutable std::mutex mutex_;  // of what is below
  mutable std::optional<ShownCalls> shown_calls_;
};

}  // namespace bonsai::host
