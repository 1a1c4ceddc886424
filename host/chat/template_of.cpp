#include "host/chat/template_of.h"

#include <optional>
#include <string_view>

namespace bonsai::host {
namespace {

// https://github.com/openai/openai-python/blob/v0.28.1/chatml.md
constexpr std::string_view kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

bool is_control(const text::Tokenizer &tokenizer, std::string_view spelling) {
  const auto id = tokenizer.find(spelling);
  return id && tokenizer.is_control(*id);
}

}  // namespace

Result<ModelTemplate> template_of(const text::Tokenizer &tokenizer) {
  const std::string &own = tokenizer.chat_template();
  if (own.empty() && !(is_control(tokenizer, "<|im_start|>") && is_control(tokenizer, "<|im_end|>")))
    return fail(
        "the model has no chat template (tokenizer.chat_template), and its vocabulary no <|im_start|> and "
        "<|im_end|>: it can continue texts, but not chat");
  auto parsed = jinja::ChatTemplate::parse(own.empty() ? kChatMl : own);
  if (!parsed) return fail("tokenizer.chat_template: {}", parsed.error().message);
  auto trusted = nlohmann::ordered_json::object();
  const auto trust = [&](const char *name, std::optional<int32_t> id) {
    if (id) trusted[name] = std::string(tokenizer.spelling(*id));
  };
  trust("bos_token", tokenizer.bos());
  trust("eos_token", tokenizer.eos());
  return ModelTemplate{std::move(*parsed), std::move(trusted), own.empty()};
}

Result<std::vector<int32_t>> encode_chat(const text::Tokenizer &tokenizer, const ModelTemplate &model,
                                         const jinja::Rendered &rendered) {
  auto tokens = tokenizer.encode(rendered.text, rendered.template_ranges);
  if (tokens && model.is_built_in && tokenizer.add_bos() && tokenizer.bos())
    tokens->insert(tokens->begin(), *tokenizer.bos());
  return tokens;
}

}  // namespace bonsai::host
