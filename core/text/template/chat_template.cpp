#include "core/text/template/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/utf8.h"
#include "core/text/template/evaluator.h"
#include "core/text/template/from_json.h"
#include "core/text/template/lexer.h"
#include "core/text/template/parser.h"

namespace bonsai::jinja {
namespace {

constexpr size_t kMostSourceBytes = size_t{4} << 20;

void set_variables(Evaluator &evaluator, const nlohmann::ordered_json &variables, Origin origin) {
  if (!variables.is_object() && !variables.is_null()) {
    evaluator.fail("the variables are {}; expected an object", variables.type_name());
    return;
  }
  for (const auto &[name, value] : variables.items()) evaluator.set_variable(name, from_json(evaluator, value, origin));
}

}  // namespace

struct ChatTemplate::State {
  Body body;
  std::vector<std::string> names;  // that occur in tags, sorted
};

ChatTemplate::ChatTemplate(std::unique_ptr<const State> state) : state_(std::move(state)) {}
ChatTemplate::ChatTemplate(ChatTemplate &&) noexcept = default;
ChatTemplate &ChatTemplate::operator=(ChatTemplate &&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kMostSourceBytes)
    return fail("the template has {} bytes; expected at most {}", source.size(), kMostSourceBytes);
  if (const size_t offset = find_invalid_utf8(source); offset != std::string_view::npos)
    return fail("the template is not UTF-8 at byte offset {}", offset);
  auto tokens = tokenize(source);
  if (!tokens) return tl::unexpected(std::move(tokens.error()));
  auto state = std::make_unique<State>();
  for (const Token &token : *tokens)
    if (token.kind == Token::Kind::kName) state->names.push_back(token.text);
  std::sort(state->names.begin(), state->names.end());
  auto body = jinja::parse(std::move(*tokens));
  if (!body) return tl::unexpected(std::move(body.error()));
  state->body = std::move(*body);
  return ChatTemplate(std::move(state));
}

Result<Rendered> ChatTemplate::render(const Variables &variables, const RenderOptions &options) const {
  Evaluator evaluator(options.limits, options.now.value_or(std::time(nullptr)));
  set_variables(evaluator, variables.input, Origin::kInput);
  // Last, so that the input cannot pass for them.
  set_variables(evaluator, variables.trusted, Origin::kTemplate);
  TracedText out = evaluator.run(state_->body);
  if (evaluator.failed()) return tl::unexpected(Error{evaluator.error()});
  auto [text, ranges] = std::move(out).take();
  return Rendered{std::move(text), std::move(ranges)};
}

bool ChatTemplate::mentions(std::string_view variable) const {
  return std::binary_search(state_->names.begin(), state_->names.end(), variable);
}

}  // namespace bonsai::jinja
