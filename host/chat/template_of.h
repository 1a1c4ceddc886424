// The chat template of a model, with the values that it may trust.
#pragma once

#include <nlohmann/json.hpp>

#include "core/text/template/chat_template.h"
#include "core/text/tokenizer.h"

namespace bonsai::host {

struct ModelTemplate {
  jinja::ChatTemplate chat_template;
  nlohmann::ordered_json trusted;  // "bos_token" and its like
  bool is_built_in = false;        // ChatML, as the file has no template
};

// Errors: a template that cannot be parsed, with its line; no template, and a vocabulary that does not speak ChatML.
Result<ModelTemplate> template_of(const text::Tokenizer &tokenizer);

// What a text becomes that the template rendered: control tokens where the template wrote them. ChatML that is built in
// begins with BOS where the model wants one; a template of the file says so itself.
Result<std::vector<int32_t>> encode_chat(const text::Tokenizer &tokenizer, const ModelTemplate &model,
                                         const jinja::Rendered &rendered);

}  // namespace bonsai::host
