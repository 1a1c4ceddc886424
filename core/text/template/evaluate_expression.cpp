#include <utility>

#include "core/text/template/builtins.h"
#include "core/text/template/evaluator.h"
#include "core/text/template/operators.h"
#include "core/text/template/print.h"

namespace bonsai::jinja {

Value Evaluator::evaluate(const ExpressionPtr &expression) {
  if (expression == nullptr || !spend(1)) return {};
  if (depth_ + 1 > limits().depth) return fail("calls and expressions are nested deeper than {}", limits().depth);
  ++depth_;
  at_line(expression->line);
  Value value = std::visit([this](const auto &node) { return evaluate_node(node); }, expression->node);
  --depth_;
  return value;
}

Value Evaluator::evaluate_node(const Name &node) {
  for (const Scope *scope = scope_; scope != nullptr; scope = scope->parent) {
    if (!spend(1)) return {};
    if (const Value *value = find(scope->variables, node.name)) return *value;
  }
  if (const Builtin *function = find_function(node.name))
    return std::make_shared<const Callable>(Callable{.builtin = function, .self = {}});
  if (!spend_on_items(node.name.size())) return {};
  return Value::undefined(fmt::format("'{}' is undefined", node.name));
}

Value Evaluator::evaluate_node(const Attribute &node) {
  const Value object = evaluate(node.object);
  return failed() ? Value() : attribute(*this, object, node.name);
}

Value Evaluator::evaluate_node(const Item &node) {
  const Value object = evaluate(node.object), key = evaluate(node.key);
  return failed() ? Value() : item(*this, object, key);
}

Value Evaluator::evaluate_node(const Slice &node) {
  const Value object = evaluate(node.object);
  const SliceBounds bounds{evaluate(node.start), evaluate(node.stop), evaluate(node.step)};
  return failed() ? Value() : slice(*this, object, bounds);
}

CallArguments Evaluator::evaluate(const Arguments &arguments) {
  CallArguments values;
  for (const ExpressionPtr &argument : arguments.positional) values.positional.push_back(evaluate(argument));
  for (const auto &[name, argument] : arguments.named)
    if (spend_on_items(name.size())) values.named.emplace_back(name, evaluate(argument));
  return values;
}

Value Evaluator::evaluate_node(const CallOf &node) {
  const uint32_t line = this->line();
  const Value callee = evaluate(node.callee);
  CallArguments arguments = evaluate(node.arguments);
  at_line(line);
  return call(callee, std::move(arguments));
}

Value Evaluator::evaluate_node(const Filter &node) {
  const uint32_t line = this->line();
  const Value subject = evaluate(node.subject);
  CallArguments arguments = evaluate(node.arguments);
  at_line(line);
  return failed() ? Value() : call_builtin(*this, "filter", *node.filter, subject, std::move(arguments));
}

Value Evaluator::evaluate_node(const Test &node) {
  const uint32_t line = this->line();
  const Value subject = evaluate(node.subject);
  CallArguments arguments = evaluate(node.arguments);
  at_line(line);
  return failed() ? Value() : call_builtin(*this, "test", *node.test, subject, std::move(arguments));
}

Value Evaluator::evaluate_node(const ListDisplay &node) {
  std::vector<Value> items;
  for (const ExpressionPtr &item : node.items) items.push_back(evaluate(item));
  return failed() ? Value() : list(std::move(items), node.kind);
}

Value Evaluator::evaluate_node(const DictDisplay &node) {
  DictItems items;
  for (const auto &[key_expression, value_expression] : node.items) {
    Value key = evaluate(key_expression), value = evaluate(value_expression);
    if (failed()) return {};
    const bool is_key = key.text() != nullptr || key.is_none() || key.as_real();
    if (!is_key) return key.is_undefined() ? fail_undefined(key) : fail("{} cannot be a key", type_name(key));
    set_key(*this, items, std::move(key), std::move(value));
  }
  return dict(std::move(items));
}

Value Evaluator::evaluate_node(const Unary &node) {
  const Value operand = evaluate(node.operand);
  if (failed()) return {};
  if (node.op == Unary::Operator::kNot) return !is_true(operand);
  return negate(*this, node.op, operand);
}

Value Evaluator::evaluate_node(const Arithmetic &node) {
  const Value left = evaluate(node.left), right = evaluate(node.right);
  return failed() ? Value() : arithmetic(*this, node.op, left, right);
}

Value Evaluator::evaluate_node(const Concatenation &node) {
  TextBuilder out(*this);
  for (const ExpressionPtr &part : node.parts) out.append(to_text(*this, evaluate(part)));
  return failed() ? Value() : Value(out.take());
}

Value Evaluator::evaluate_node(const Logical &node) {
  Value left = evaluate(node.left);
  const bool decides = is_true(left) == (node.op == Logical::Operator::kOr);
  return decides ? left : evaluate(node.right);
}

Value Evaluator::evaluate_node(const Comparison &node) {
  Value left = evaluate(node.first);
  for (const auto &[op, operand] : node.rest) {
    Value right = evaluate(operand);
    if (failed()) return {};
    const auto holds = compare(*this, op, left, right);
    if (!holds) return {};
    if (!*holds) return false;
    left = std::move(right);
  }
  return true;
}

Value Evaluator::evaluate_node(const Conditional &node) {
  if (is_true_of(node.condition)) return evaluate(node.then);
  if (node.otherwise != nullptr) return evaluate(node.otherwise);
  return Value::undefined("the condition is false, and there is no 'else'");
}

}  // namespace bonsai::jinja
