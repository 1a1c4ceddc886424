// A parsed template. Built by the parser, never changed afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/text/template/value.h"

namespace bonsai::jinja {

struct Builtin;
struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Body = std::vector<Statement>;

struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct Attribute {  // object.name
  ExpressionPtr object;
  std::string name;
};
struct Item {  // object[key]
  ExpressionPtr object, key;
};
struct Slice {  // object[start:stop:step], each of which may be null
  ExpressionPtr object, start, stop, step;
};
struct CallOf {  // callee(arguments)
  ExpressionPtr callee;
  Arguments arguments;
};
struct Filter {  // subject | filter(arguments)
  ExpressionPtr subject;
  const Builtin *filter;
  Arguments arguments;
};
struct Test {  // subject is test(arguments)
  ExpressionPtr subject;
  const Builtin *test;
  Arguments arguments;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  Sequence::Kind kind;  // kList or kTuple
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> items;
};
struct Unary {
  enum class Operator : uint8_t { kNot, kMinus, kPlus } op;
  ExpressionPtr operand;
};
struct Arithmetic {
  enum class Operator : uint8_t { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower } op;
  ExpressionPtr left, right;
};
struct Concatenation {  // a ~ b ~ c
  std::vector<ExpressionPtr> parts;
};
struct Logical {  // `and` and `or` give one of their operands
  enum class Operator : uint8_t { kAnd, kOr } op;
  ExpressionPtr left, right;
};
struct Comparison {  // a < b <= c: every neighbouring pair must hold
  enum class Operator : uint8_t { kEqual, kNotEqual, kLess, kLessOrEqual, kGreater, kGreaterOrEqual, kIn, kNotIn };
  ExpressionPtr first;
  std::vector<std::pair<Operator, ExpressionPtr>> rest;
};
struct Conditional {  // then if condition else otherwise (null: undefined)
  ExpressionPtr condition, then, otherwise;
};
struct Captured {};  // the text of the block that a filter is applied to

struct Expression {
  using Node = std::variant<Literal, Name, Attribute, Item, Slice, CallOf, Filter, Test, ListDisplay, DictDisplay,
                            Unary, Arithmetic, Concatenation, Logical, Comparison, Conditional, Captured>;
  uint32_t line;
  uint32_t height;  // 1 + that of the highest part
  Node node;
};

// What an assignment assigns to: a name, a namespace's field (`attribute` is set), or several targets at once.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
  bool is_tuple = false;
};

struct Data {  // what stands outside of {{ }} and {% %}
  TracedText text;
};
struct Print {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, condition;  // condition: null or `for ... if condition`
  Body body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr value;  // of Captured
  Body body;
};
struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: undefined
};
struct Macro {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // Its body asks for what no parameter is there for: the further arguments, and those with other names.
  bool takes_varargs = false, takes_kwargs = false;
};
struct MacroDefinition {
  Macro macro;
};
struct CallBlock {  // {% call macro(...) %}: the body is the macro's `caller`
  Macro caller;
  ExpressionPtr call;  // a CallOf
};
struct FilterBlock {
  ExpressionPtr value;  // of Captured
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Body body;  // also {% generation %}, with no variables
};
struct Break {};
struct Continue {};

struct Statement {
  using Node =
      std::variant<Data, Print, If, For, Set, SetBlock, MacroDefinition, CallBlock, FilterBlock, With, Break, Continue>;
  uint32_t line;
  Node node;
};

}  // namespace bonsai::jinja
