// A tiny random model with a chat template of a test's own, and conversations with it.
#pragma once

#include <bonsai/chat.h>
#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/host/engine/seedling.h"
#include "tests/model/tiny_model.h"

namespace bonsai {

inline test::TinyModel model_with(const char *chat_template) {
  test::TinyModel model;
  model.metadata = [chat_template](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template", chat_template);
  };
  return model;
}

inline Engine load(const test::TinyModelFile &file) {
  EngineOptions options;
  options.model = file.path();
  return Engine::load(options);
}

// Greedy and never ending, so that every answer has text.
inline GenerateOptions talk(uint32_t max_tokens = 8) {
  GenerateOptions options = greedy(max_tokens);
  options.ignore_eos = true;
  return options;
}

// A text that says nothing else.
inline GenerateOptions saying(const std::string &text) {
  GenerateOptions options = greedy(200);
  options.grammar = "root ::= " + nlohmann::json(text).dump();
  return options;
}

class ChatTest : public testing::Test {
 protected:
  static constexpr const char *kTemplate =
      "{% if tools %}<|im_start|>tools{{ tools | tojson }}<|im_end|>{% endif %}"
      "{% for m in messages %}{% if m.role == 'king' %}{{ raise_exception('no kings') }}{% endif %}"
      "<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>a:{% if enable_thinking is defined and not enable_thinking %}"
      "<think></think>{% endif %}{% endif %}";

  const test::TinyModelFile file_{model_with(kTemplate)};
  const Engine engine_ = load(file_);
  Chat chat_{engine_};
};

}  // namespace bonsai
