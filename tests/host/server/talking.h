// A model that converses: by a template that shows all that conversations have, and a grammar that says what it
// answers.
#pragma once

#include <gtest/gtest.h>

#include "tests/host/server/service.h"
#include "tests/model/tiny_model.h"

namespace bonsai::server {

inline constexpr const char *kTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}{% if m.role == 'king' %}{{ raise_exception('no kings') }}{% endif %}"
    "<|im_start|>{{ m.role }}:{{ m.content }}"
    "{% for call in m.tool_calls %}{{ call.function.name }}{{ call.function.arguments | tojson }}{% endfor %}"
    "<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>a:"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}";

inline test::TinyModel talking_model() {
  test::TinyModel model;
  model.context = 1024;  // a token is a byte
  model.metadata = [](gguf::Writer &writer) { writer.set_string("tokenizer.chat_template", kTemplate); };
  return model;
}

// An answer that thinks, speaks and calls, and the conversation that goes on from it, as chat completions have it.
inline constexpr const char *kAnswerOfAll =
    "<think>\nwhy\n</think>\n\nI see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"town\": \"Rome\"}}\n"
    "</tool_call>\n<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";

inline json messages_behind_it() {
  const json calls = json::parse(
      R"([{"id":"1","type":"function","function":{"name":"weather","arguments":"{\"town\":\"Rome\"}"}},
          {"id":"2","type":"function","function":{"name":"time","arguments":"{}"}}])");
  return {{{"role", "user"}, {"content", "hi"}},
          {{"role", "assistant"}, {"content", "I see."}, {"tool_calls", calls}},
          {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "sunny"}},
          {{"role", "tool"}, {"tool_call_id", "2"}, {"content", "noon"}}};
}

class Talking : public testing::Test {
 protected:
  const test::TinyModelFile file_{talking_model()};
  const Engine engine_ = load(file_.path());
};

}  // namespace bonsai::server
