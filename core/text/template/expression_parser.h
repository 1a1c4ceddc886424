// Expressions, in Jinja's grammar and precedence (https://jinja.palletsprojects.com/templates/#expressions).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/text/template/ast.h"
#include "core/text/template/token_stream.h"

namespace bonsai::jinja {

// How deep parentheses and the like, and tags, may be nested, and how high an expression may be: what reads them and
// what walks over them recurses, and a thread may have little stack. Reading takes more of it.
inline constexpr uint32_t kMostNesting = 100;
inline constexpr uint32_t kMostSteps = 250;

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream &tokens) : tokens_(tokens) {}

  // Never null; of no meaning after an error.
  ExpressionPtr expression();
  // `conditional`: "a if b else c" is allowed; not in the head of a `for`, where `if` filters.
  ExpressionPtr expression(bool conditional) { return conditional ? expression() : logical_or(); }
  // One expression, or a tuple without parentheses.
  ExpressionPtr tuple_or_expression(bool conditional);
  // What {% print %} prints: expressions with commas between them, one text behind another.
  ExpressionPtr printed();
  // The filters behind a block's name: "upper | replace(...)", applied to the block's text.
  ExpressionPtr filters_of_block();
  // A name, a namespace's field (where `fields` allows it), or several with commas between them.
  Target target(bool fields);

 private:
  class Nesting;
  using Rule = ExpressionPtr (ExpressionParser::*)();

  ExpressionPtr logical_or();
  ExpressionPtr logical_and();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary() { return unary(true); }
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr parenthesised();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr string();
  ExpressionPtr postfix(ExpressionPtr object);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr attribute(ExpressionPtr object);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr filters_and_tests(ExpressionPtr subject);
  ExpressionPtr filter(ExpressionPtr subject);
  ExpressionPtr test(ExpressionPtr subject);
  Arguments arguments();
  void argument(Arguments &into);
  Arguments test_arguments();
  Target single_target(bool fields);
  std::vector<ExpressionPtr> items_until(std::string_view closer);
  ExpressionPtr arithmetic(Rule part,
                           std::initializer_list<std::pair<std::string_view, Arithmetic::Operator>> operators);
  bool comparison_operator(Comparison::Operator &op);

  template <class Node>
  ExpressionPtr make(uint32_t line, Node node);

  TokenStream &tokens_;
  uint32_t nesting_ = 0;
};

}  // namespace bonsai::jinja
