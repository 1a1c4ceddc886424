#include "core/text/template/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "core/text/template/builtins.h"

namespace bonsai::jinja {
namespace {

using Kind = Token::Kind;

// The height of the highest part of a node; one overload for what each node holds.
uint32_t height(const ExpressionPtr &part) { return part == nullptr ? 0 : part->height; }
uint32_t height(const std::vector<ExpressionPtr> &parts) {
  uint32_t most = 0;
  for (const ExpressionPtr &part : parts) most = std::max(most, height(part));
  return most;
}
uint32_t height(const Arguments &arguments) {
  uint32_t most = height(arguments.positional);
  for (const auto &[name, value] : arguments.named) most = std::max(most, height(value));
  return most;
}
uint32_t height(const Literal &) { return 0; }
uint32_t height(const Name &) { return 0; }
uint32_t height(const Captured &) { return 0; }
uint32_t height(const Attribute &node) { return height(node.object); }
uint32_t height(const Item &node) { return std::max(height(node.object), height(node.key)); }
uint32_t height(const Slice &node) {
  return std::max({height(node.object), height(node.start), height(node.stop), height(node.step)});
}
uint32_t height(const CallOf &node) { return std::max(height(node.callee), height(node.arguments)); }
uint32_t height(const Filter &node) { return std::max(height(node.subject), height(node.arguments)); }
uint32_t height(const Test &node) { return std::max(height(node.subject), height(node.arguments)); }
uint32_t height(const ListDisplay &node) { return height(node.items); }
uint32_t height(const DictDisplay &node) {
  uint32_t most = 0;
  for (const auto &[key, value] : node.items) most = std::max({most, height(key), height(value)});
  return most;
}
uint32_t height(const Unary &node) { return height(node.operand); }
uint32_t height(const Arithmetic &node) { return std::max(height(node.left), height(node.right)); }
uint32_t height(const Concatenation &node) { return height(node.parts); }
uint32_t height(const Logical &node) { return std::max(height(node.left), height(node.right)); }
uint32_t height(const Comparison &node) {
  uint32_t most = height(node.first);
  for (const auto &[op, operand] : node.rest) most = std::max(most, height(operand));
  return most;
}
uint32_t height(const Conditional &node) {
  return std::max({height(node.condition), height(node.then), height(node.otherwise)});
}

// Words that only begin or join expressions and statements.
bool is_reserved(std::string_view name) {
  constexpr std::array<std::string_view, 12> kReserved = {"true", "false", "none", "True", "False", "None",
                                                          "and",  "or",    "not",  "if",   "else",  "in"};
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

}  // namespace

// One level deeper for as long as it lives.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser &parser) : parser_(parser) {
    if (++parser_.nesting_ > kMostNesting)
      parser_.tokens_.fail(fmt::format("expressions are nested deeper than {}", kMostNesting));
  }
  ~Nesting() { --parser_.nesting_; }
  Nesting(const Nesting &) = delete;
  Nesting &operator=(const Nesting &) = delete;

 private:
  ExpressionParser &parser_;
};

// A long chain, a + b + c + ..., is high without nested parentheses.
template <class Node>
ExpressionPtr ExpressionParser::make(uint32_t line, Node node) {
  const uint32_t node_height = 1 + height(node);
  if (node_height > kMostSteps) {
    tokens_.fail_at(line, fmt::format("an expression of more than {} steps", kMostSteps));
    return std::make_unique<const Expression>(Expression{line, 1, Literal{}});
  }
  return std::make_unique<const Expression>(Expression{line, node_height, std::move(node)});
}

ExpressionPtr ExpressionParser::expression() {
  const Nesting nesting(*this);
  const uint32_t line = tokens_.line();
  ExpressionPtr value = logical_or();
  while (tokens_.skip_name("if")) {
    ExpressionPtr condition = logical_or();
    ExpressionPtr otherwise = tokens_.skip_name("else") ? expression() : nullptr;
    value = make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr ExpressionParser::tuple_or_expression(bool conditional) {
  const uint32_t line = tokens_.line();
  ExpressionPtr first = expression(conditional);
  if (!tokens_.at_operator(",")) return first;
  ListDisplay tuple{.items = {}, .kind = Sequence::Kind::kTuple};
  tuple.items.push_back(std::move(first));
  while (tokens_.skip_operator(",")) {
    const bool ends = tokens_.at(Kind::kPrintEnd) || tokens_.at(Kind::kBlockEnd) || tokens_.at_operator(")");
    if (ends) break;
    tuple.items.push_back(expression(conditional));
  }
  return make(line, std::move(tuple));
}

ExpressionPtr ExpressionParser::printed() {
  const uint32_t line = tokens_.line();
  Concatenation texts;
  if (tokens_.at(Kind::kBlockEnd)) return make(line, std::move(texts));
  texts.parts.push_back(expression());
  while (tokens_.skip_operator(",")) texts.parts.push_back(expression());
  if (texts.parts.size() == 1) return std::move(texts.parts.front());
  return make(line, std::move(texts));
}

ExpressionPtr ExpressionParser::logical_or() {
  const uint32_t line = tokens_.line();
  ExpressionPtr left = logical_and();
  while (tokens_.skip_name("or")) left = make(line, Logical{Logical::Operator::kOr, std::move(left), logical_and()});
  return left;
}

ExpressionPtr ExpressionParser::logical_and() {
  const uint32_t line = tokens_.line();
  ExpressionPtr left = negation();
  while (tokens_.skip_name("and")) left = make(line, Logical{Logical::Operator::kAnd, std::move(left), negation()});
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const uint32_t line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  const Nesting nesting(*this);
  return make(line, Unary{Unary::Operator::kNot, negation()});
}

bool ExpressionParser::comparison_operator(Comparison::Operator &op) {
  using Operator = Comparison::Operator;
  constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEqual},       {"!=", Operator::kNotEqual}, {"<", Operator::kLess},
      {"<=", Operator::kLessOrEqual}, {">", Operator::kGreater},   {">=", Operator::kGreaterOrEqual}};
  for (const auto &[text, meaning] : kOperators) {
    if (tokens_.skip_operator(text)) return op = meaning, true;
  }
  if (tokens_.skip_name("in")) return op = Operator::kIn, true;
  const bool is_not_in = tokens_.at_name("not") && tokens_.next().kind == Kind::kName && tokens_.next().text == "in";
  if (!is_not_in) return false;
  tokens_.take();
  tokens_.take();
  return op = Operator::kNotIn, true;
}

ExpressionPtr ExpressionParser::comparison() {
  const uint32_t line = tokens_.line();
  ExpressionPtr first = sum();
  Comparison comparison;
  for (Comparison::Operator op; comparison_operator(op);) comparison.rest.emplace_back(op, sum());
  if (comparison.rest.empty()) return first;
  comparison.first = std::move(first);
  return make(line, std::move(comparison));
}

// Operators of one precedence between parts, from the left.
ExpressionPtr ExpressionParser::arithmetic(
    Rule part, std::initializer_list<std::pair<std::string_view, Arithmetic::Operator>> operators) {
  const uint32_t line = tokens_.line();
  ExpressionPtr left = (this->*part)();
  for (;;) {
    const auto found = std::find_if(operators.begin(), operators.end(),
                                    [this](const auto &op) { return tokens_.at_operator(op.first); });
    if (found == operators.end()) return left;
    tokens_.take();
    ExpressionPtr right = (this->*part)();
    left = make(line, Arithmetic{found->second, std::move(left), std::move(right)});
  }
}

ExpressionPtr ExpressionParser::sum() {
  using Operator = Arithmetic::Operator;
  return arithmetic(&ExpressionParser::concatenation, {{"+", Operator::kAdd}, {"-", Operator::kSubtract}});
}

ExpressionPtr ExpressionParser::concatenation() {
  const uint32_t line = tokens_.line();
  ExpressionPtr first = product();
  if (!tokens_.at_operator("~")) return first;
  Concatenation concatenation;
  concatenation.parts.push_back(std::move(first));
  while (tokens_.skip_operator("~")) concatenation.parts.push_back(product());
  return make(line, std::move(concatenation));
}

ExpressionPtr ExpressionParser::product() {
  using Operator = Arithmetic::Operator;
  return arithmetic(
      &ExpressionParser::power,
      {{"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide}, {"%", Operator::kModulo}});
}

ExpressionPtr ExpressionParser::power() {
  return arithmetic(&ExpressionParser::unary, {{"**", Arithmetic::Operator::kPower}});
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const uint32_t line = tokens_.line();
  ExpressionPtr value;
  if (tokens_.at_operator("-") || tokens_.at_operator("+")) {
    const Nesting nesting(*this);
    const auto op = tokens_.take().text == "-" ? Unary::Operator::kMinus : Unary::Operator::kPlus;
    value = make(line, Unary{op, unary(false)});
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const uint32_t line = tokens_.line();
  const Token &token = tokens_.current();
  switch (token.kind) {
    case Kind::kString:
      return string();
    case Kind::kInteger:
      return make(line, Literal{tokens_.take().integer});
    case Kind::kFloat: {
      double value = 0;
      const char *const begin = token.text.data();
      const bool is_beyond =
          std::from_chars(begin, begin + token.text.size(), value).ec == std::errc::result_out_of_range;
      if (is_beyond && token.text.find("e-") == token.text.npos && token.text.find("E-") == token.text.npos)
        value = std::numeric_limits<double>::infinity();
      tokens_.take();
      return make(line, Literal{value});
    }
    case Kind::kName:
      tokens_.take();
      if (token.text == "true" || token.text == "True") return make(line, Literal{true});
      if (token.text == "false" || token.text == "False") return make(line, Literal{false});
      if (token.text == "none" || token.text == "None") return make(line, Literal{None()});
      return make(line, Name{token.text});
    default:
      break;
  }
  if (tokens_.at_operator("(")) return parenthesised();
  if (tokens_.at_operator("[")) return list();
  if (tokens_.at_operator("{")) return dict();
  tokens_.fail_expected("an expression");
  return make(line, Literal{});
}

// Neighbouring strings are one.
ExpressionPtr ExpressionParser::string() {
  const uint32_t line = tokens_.line();
  std::string text;
  while (tokens_.at(Kind::kString)) text += tokens_.take().text;
  return make(line, Literal{TracedText(std::move(text), Origin::kTemplate)});
}

ExpressionPtr ExpressionParser::parenthesised() {
  const uint32_t line = tokens_.line();
  tokens_.take();
  if (tokens_.skip_operator(")")) return make(line, ListDisplay{.items = {}, .kind = Sequence::Kind::kTuple});
  ExpressionPtr value = tuple_or_expression(true);
  tokens_.expect_operator(")");
  return value;
}

std::vector<ExpressionPtr> ExpressionParser::items_until(std::string_view closer) {
  std::vector<ExpressionPtr> items;
  while (!tokens_.at_operator(closer) && !tokens_.failed()) {
    if (!items.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator(closer)) break;
    items.push_back(expression());
  }
  tokens_.expect_operator(closer);
  return items;
}

ExpressionPtr ExpressionParser::list() {
  const uint32_t line = tokens_.line();
  tokens_.take();
  return make(line, ListDisplay{.items = items_until("]"), .kind = Sequence::Kind::kList});
}

ExpressionPtr ExpressionParser::dict() {
  const uint32_t line = tokens_.line();
  DictDisplay dict;
  tokens_.take();
  while (!tokens_.at_operator("}") && !tokens_.failed()) {
    if (!dict.items.empty()) tokens_.expect_operator(",");
    if (tokens_.at_operator("}")) break;
    ExpressionPtr key = expression();
    tokens_.expect_operator(":");
    dict.items.emplace_back(std::move(key), expression());
  }
  tokens_.expect_operator("}");
  return make(line, std::move(dict));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr object) {
  for (;;) {
    if (tokens_.at_operator(".")) {
      object = attribute(std::move(object));
    } else if (tokens_.at_operator("[")) {
      object = subscript(std::move(object));
    } else if (tokens_.at_operator("(")) {
      object = call(std::move(object));
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr object) {
  const uint32_t line = tokens_.line();
  tokens_.take();
  if (tokens_.at(Kind::kInteger)) {
    ExpressionPtr index = make(line, Literal{tokens_.take().integer});
    return make(line, Item{std::move(object), std::move(index)});
  }
  return make(line, Attribute{std::move(object), tokens_.take_name("a name behind '.'")});
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const uint32_t line = tokens_.line();
  tokens_.take();
  const auto part = [this]() -> ExpressionPtr {
    return tokens_.at_operator(":") || tokens_.at_operator("]") ? nullptr : expression();
  };
  ExpressionPtr start = part();
  if (!tokens_.skip_operator(":")) {
    if (start == nullptr) tokens_.fail_expected("an expression");
    tokens_.expect_operator("]");
    return make(line, Item{std::move(object), std::move(start)});
  }
  Slice slice{std::move(object), std::move(start), part(), nullptr};
  if (tokens_.skip_operator(":")) slice.step = part();
  tokens_.expect_operator("]");
  return make(line, std::move(slice));
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  const uint32_t line = tokens_.line();
  return make(line, CallOf{std::move(callee), arguments()});
}

void ExpressionParser::argument(Arguments &into) {
  if (tokens_.at_operator("*") || tokens_.at_operator("**"))
    return tokens_.fail("arguments with '*' are not supported in chat templates");
  const bool is_named = tokens_.at(Kind::kName) && tokens_.next().kind == Kind::kOperator && tokens_.next().text == "=";
  if (is_named) {
    std::string name = tokens_.take().text;
    tokens_.take();
    into.named.emplace_back(std::move(name), expression());
  } else if (!into.named.empty()) {
    tokens_.fail("an argument without a name follows one with a name");
  } else {
    into.positional.push_back(expression());
  }
}

Arguments ExpressionParser::arguments() {
  Arguments arguments;
  tokens_.take();
  while (!tokens_.at_operator(")") && !tokens_.failed()) {
    if (!arguments.positional.empty() || !arguments.named.empty()) tokens_.expect_operator(",");
    if (!tokens_.at_operator(")")) argument(arguments);
  }
  tokens_.expect_operator(")");
  return arguments;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr subject) {
  for (;;) {
    if (tokens_.skip_operator("|")) {
      subject = filter(std::move(subject));
    } else if (tokens_.skip_name("is")) {
      subject = test(std::move(subject));
    } else if (tokens_.at_operator("(")) {
      subject = call(std::move(subject));
    } else {
      return subject;
    }
  }
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr subject) {
  const uint32_t line = tokens_.line();
  const std::string name = tokens_.take_name("a filter's name");
  const Builtin *builtin = find_filter(name);
  if (builtin == nullptr) tokens_.fail_at(line, fmt::format("there is no filter '{}'", name));
  Arguments given = tokens_.at_operator("(") ? arguments() : Arguments();
  return make(line, Filter{std::move(subject), builtin, std::move(given)});
}

ExpressionPtr ExpressionParser::filters_of_block() {
  ExpressionPtr value = filter(make(tokens_.line(), Captured{}));
  while (tokens_.skip_operator("|")) value = filter(std::move(value));
  return value;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr subject) {
  const uint32_t line = tokens_.line();
  const bool negated = tokens_.skip_name("not");
  const std::string name = tokens_.take_name("a test's name");
  const Builtin *builtin = find_test(name);
  if (builtin == nullptr) tokens_.fail_at(line, fmt::format("there is no test '{}'", name));
  ExpressionPtr result = make(line, Test{std::move(subject), builtin, test_arguments()});
  return negated ? make(line, Unary{Unary::Operator::kNot, std::move(result)}) : std::move(result);
}

// In parentheses, or one value without: "is divisibleby 3".
Arguments ExpressionParser::test_arguments() {
  if (tokens_.at_operator("(")) return arguments();
  Arguments given;
  const Token &token = tokens_.current();
  if (tokens_.at_name("is")) tokens_.fail("tests cannot be chained; expected parentheses");
  const bool joins = tokens_.at_name("else") || tokens_.at_name("or") || tokens_.at_name("and") ||
                     tokens_.at_name("if") || tokens_.at_name("not") || tokens_.at_name("in");
  const bool begins_value = token.kind == Kind::kName || token.kind == Kind::kString || token.kind == Kind::kInteger ||
                            token.kind == Kind::kFloat || tokens_.at_operator("[") || tokens_.at_operator("{");
  if (begins_value && !joins) given.positional.push_back(postfix(primary()));
  return given;
}

Target ExpressionParser::single_target(bool fields) {
  const Nesting nesting(*this);
  Target target;
  if (tokens_.skip_operator("(")) {
    target = this->target(fields);
    tokens_.expect_operator(")");
    return target;
  }
  const uint32_t line = tokens_.line();
  target.name = tokens_.take_name("a name to assign to");
  if (is_reserved(target.name)) tokens_.fail_at(line, fmt::format("cannot assign to '{}'", target.name));
  if (fields && tokens_.skip_operator(".")) target.attribute = tokens_.take_name("a name behind '.'");
  return target;
}

Target ExpressionParser::target(bool fields) {
  Target first = single_target(fields);
  if (!tokens_.at_operator(",")) return first;
  Target all;
  all.is_tuple = true;
  all.parts.push_back(std::move(first));
  while (tokens_.skip_operator(",")) {
    if (tokens_.at_name("in") || tokens_.at_operator("=") || tokens_.at_operator(")")) break;
    all.parts.push_back(single_target(fields));
  }
  return all;
}

}  // namespace bonsai::jinja
