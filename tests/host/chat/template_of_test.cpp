// Which template a model's conversations are written in.
#include "host/chat/template_of.h"

#include <gtest/gtest.h>

#include "tests/text/tiny_tokenizer.h"

namespace bonsai::host {
namespace {

using Json = nlohmann::ordered_json;

const Json kInput = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"add_generation_prompt", true}};

text::Tokenizer tokenizer_with(const std::string &chat_template) {
  text::TokenizerData data = text::tiny_tokenizer_data();
  data.chat_template = chat_template;
  data.add_bos = true;
  return std::move(*text::Tokenizer::create(std::move(data)));
}

TEST(TemplateOf, TheFilesOwnComesFirstAndItsEndTokensAreTrusted) {
  const text::Tokenizer tokenizer = tokenizer_with("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  const auto model = template_of(tokenizer);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_FALSE(model->is_built_in);
  const auto rendered = model->chat_template.render({.input = kInput, .trusted = model->trusted});
  ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
  // BOS where the template writes it, and nowhere else.
  EXPECT_EQ(*encode_chat(tokenizer, *model, *rendered),
            (std::vector<int32_t>{text::kEndOfText, 'h', 'i', text::kImEnd}));
}

TEST(TemplateOf, AVocabularyOfChatMlIsEnough) {
  const text::Tokenizer tokenizer = tokenizer_with("");
  const auto model = template_of(tokenizer);
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_TRUE(model->is_built_in);
  const auto rendered = model->chat_template.render({.input = kInput, .trusted = model->trusted});
  ASSERT_TRUE(rendered.has_value()) << rendered.error().message;
  EXPECT_EQ(rendered->text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
  const auto tokens = encode_chat(tokenizer, *model, *rendered);
  EXPECT_EQ((*tokens)[0], text::kEndOfText);
  EXPECT_EQ((*tokens)[1], text::kImStart);
}

TEST(TemplateOf, WithoutEitherThereIsNoChat) {
  text::TokenizerData data = text::tiny_tokenizer_data();
  data.chat_template = "";
  data.types[text::kImStart] = 1;
  const auto model = template_of(*text::Tokenizer::create(std::move(data)));
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().message,
            "the model has no chat template (tokenizer.chat_template), and its vocabulary no <|im_start|> and "
            "<|im_end|>: it can continue texts, but not chat");
}

TEST(TemplateOf, ABrokenTemplateIsNamedWithItsLine) {
  const auto model = template_of(tokenizer_with("a\n{% if x %}"));
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().message, "tokenizer.chat_template: line 2: 'if' is never closed: expected '{% endif %}'");
}

}  // namespace
}  // namespace bonsai::host
