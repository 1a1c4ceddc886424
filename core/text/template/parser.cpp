#include "core/text/template/parser.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/text/template/expression_parser.h"

namespace bonsai::jinja {
namespace {

using Kind = Token::Kind;
using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  Result<Body> run() {
    Body body = this->body({}, "", 0);
    if (tokens_.failed()) return tl::unexpected(Error{std::move(tokens_.error())});
    return body;
  }

 private:
  using Rule = Statement::Node (Parser::*)(uint32_t line);
  struct Tag {
    std::string_view name;
    Rule rule;
  };

  static const Tag *find_tag(std::string_view name) {
    static constexpr Tag kTags[] = {
        {"if", &Parser::if_tag},       {"for", &Parser::for_tag},
        {"set", &Parser::set_tag},     {"macro", &Parser::macro_tag},
        {"call", &Parser::call_tag},   {"filter", &Parser::filter_tag},
        {"with", &Parser::with_tag},   {"generation", &Parser::generation_tag},
        {"break", &Parser::break_tag}, {"continue", &Parser::continue_tag},
        {"print", &Parser::print_tag},
    };
    const auto *found =
        std::find_if(std::begin(kTags), std::end(kTags), [name](const Tag &tag) { return tag.name == name; });
    return found == std::end(kTags) ? nullptr : found;
  }

  // Statements up to one of the tags in `ends`, which is left for the caller behind its "{%". `opener` at `line` is the
  // tag that is open, for the message when it never ends.
  Body body(Names ends, std::string_view opener, uint32_t line) {
    Body body;
    if (++nesting_ > kMostNesting) tokens_.fail(fmt::format("tags are nested deeper than {}", kMostNesting));
    while (!tokens_.at(Kind::kEnd)) {
      if (tokens_.at(Kind::kBlockBegin)) {
        tokens_.take();
        const bool ended = std::any_of(ends.begin(), ends.end(), [this](auto end) { return tokens_.at_name(end); });
        if (ended) break;
        tag(body, opener, line);
      } else {
        text_or_print(body);
      }
    }
    if (tokens_.at(Kind::kEnd) && ends.size() > 0)
      tokens_.fail_at(line, fmt::format("'{}' is never closed: expected '{{% {} %}}'", opener, *(ends.end() - 1)));
    --nesting_;
    return body;
  }

  // The same behind the end of the opening tag, and with the one closing tag taken.
  Body whole_body(std::string_view end, std::string_view opener, uint32_t line) {
    close();
    Body body = this->body({end}, opener, line);
    tokens_.take();
    close();
    return body;
  }

  void close() { tokens_.expect(Kind::kBlockEnd, "'%}'"); }

  void text_or_print(Body &body) {
    const uint32_t line = tokens_.line();
    if (tokens_.at(Kind::kData)) {
      body.push_back({line, Data{TracedText(tokens_.take().text, Origin::kTemplate)}});
      return;
    }
    tokens_.take();
    body.push_back({line, Print{expressions_.tuple_or_expression(true)}});
    tokens_.expect(Kind::kPrintEnd, "'}}'");
  }

  void tag(Body &body, std::string_view opener, uint32_t opener_line) {
    const uint32_t line = tokens_.line();
    const std::string name = tokens_.take_name("a tag's name");
    if (const Tag *known = find_tag(name)) {
      body.push_back({line, (this->*known->rule)(line)});
      return;
    }
    const bool closes = name.starts_with("end") || name == "else" || name == "elif";
    if (closes && opener.empty()) return tokens_.fail_at(line, fmt::format("'{}' closes nothing", name));
    if (closes)
      return tokens_.fail_at(line, fmt::format("'{}' does not close '{}' of line {}", name, opener, opener_line));
    tokens_.fail_at(line, fmt::format("the tag '{}' is not available in chat templates", name));
  }

  Statement::Node if_tag(uint32_t line) {
    If statement;
    do {
      ExpressionPtr condition = expressions_.tuple_or_expression(false);
      close();
      statement.branches.emplace_back(std::move(condition), body({"elif", "else", "endif"}, "if", line));
    } while (tokens_.skip_name("elif"));
    if (tokens_.skip_name("else")) {
      statement.otherwise = whole_body("endif", "if", line);
    } else {
      tokens_.take();
      close();
    }
    return statement;
  }

  Statement::Node for_tag(uint32_t line) {
    For statement;
    statement.target = expressions_.target(false);
    tokens_.expect_name("in");
    statement.iterable = expressions_.tuple_or_expression(false);
    if (tokens_.skip_name("if")) statement.condition = expressions_.expression();
    if (tokens_.at_name("recursive")) tokens_.fail("'recursive' is not supported in chat templates");
    close();
    ++loops_;
    statement.body = body({"else", "endfor"}, "for", line);
    --loops_;
    if (tokens_.skip_name("else")) {
      statement.otherwise = whole_body("endfor", "for", line);
    } else {
      tokens_.take();
      close();
    }
    return statement;
  }

  Statement::Node set_tag(uint32_t line) {
    Target target = expressions_.target(true);
    if (tokens_.skip_operator("=")) {
      Set statement{std::move(target), expressions_.tuple_or_expression(true)};
      close();
      return statement;
    }
    SetBlock statement{.target = std::move(target), .value = nullptr, .body = {}};
    statement.value = tokens_.skip_operator("|") ? expressions_.filters_of_block() : captured(line);
    statement.body = whole_body("endset", "set", line);
    return statement;
  }

  ExpressionPtr captured(uint32_t line) { return std::make_unique<const Expression>(Expression{line, 1, Captured{}}); }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> parameters;
    tokens_.expect_operator("(");
    while (!tokens_.at_operator(")") && !tokens_.failed()) {
      if (!parameters.empty()) tokens_.expect_operator(",");
      if (tokens_.at_operator(")")) break;
      Parameter parameter{tokens_.take_name("a parameter's name"), nullptr};
      if (tokens_.skip_operator("=")) {
        parameter.fallback = expressions_.expression();
      } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
        tokens_.fail("a parameter without a default follows one with a default");
      }
      parameters.push_back(std::move(parameter));
    }
    tokens_.expect_operator(")");
    return parameters;
  }

  // Loops outside of a macro are none that its body could break.
  void macro_body(Macro &macro, std::string_view end, std::string_view opener, uint32_t line) {
    const uint32_t outer_loops = std::exchange(loops_, 0);
    const size_t begin = tokens_.place();
    macro.body = whole_body(end, opener, line);
    loops_ = outer_loops;
    macro.takes_varargs = tokens_.names_since(begin, "varargs");
    macro.takes_kwargs = tokens_.names_since(begin, "kwargs");
  }

  Statement::Node macro_tag(uint32_t line) {
    MacroDefinition definition;
    definition.macro.name = tokens_.take_name("a macro's name");
    definition.macro.parameters = parameters();
    macro_body(definition.macro, "endmacro", "macro", line);
    return definition;
  }

  Statement::Node call_tag(uint32_t line) {
    CallBlock statement;
    statement.caller.name = "caller";
    if (tokens_.at_operator("(")) statement.caller.parameters = parameters();
    statement.call = expressions_.expression();
    if (!std::holds_alternative<CallOf>(statement.call->node)) tokens_.fail_at(line, "'call' without a call");
    macro_body(statement.caller, "endcall", "call", line);
    return statement;
  }

  Statement::Node filter_tag(uint32_t line) {
    FilterBlock statement{.value = expressions_.filters_of_block(), .body = {}};
    statement.body = whole_body("endfilter", "filter", line);
    return statement;
  }

  Statement::Node with_tag(uint32_t line) {
    With statement;
    while (!tokens_.at(Kind::kBlockEnd) && !tokens_.failed()) {
      if (!statement.variables.empty()) tokens_.expect_operator(",");
      Target target = expressions_.target(false);
      tokens_.expect_operator("=");
      statement.variables.emplace_back(std::move(target), expressions_.expression());
    }
    statement.body = whole_body("endwith", "with", line);
    return statement;
  }

  // Hugging Face's mark around what the model said; its text is printed as it is.
  Statement::Node generation_tag(uint32_t line) {
    return With{.variables = {}, .body = whole_body("endgeneration", "generation", line)};
  }

  Statement::Node break_tag(uint32_t line) { return loop_exit(line, "break", Break{}); }
  Statement::Node continue_tag(uint32_t line) { return loop_exit(line, "continue", Continue{}); }
  Statement::Node loop_exit(uint32_t line, std::string_view name, Statement::Node node) {
    if (loops_ == 0) tokens_.fail_at(line, fmt::format("'{}' outside of a loop", name));
    close();
    return node;
  }

  Statement::Node print_tag(uint32_t) {
    Print statement{expressions_.printed()};
    close();
    return statement;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  uint32_t nesting_ = 0;
  uint32_t loops_ = 0;  // that are open
};

}  // namespace

Result<Body> parse(std::vector<Token> tokens) { return Parser(std::move(tokens)).run(); }

}  // namespace bonsai::jinja
