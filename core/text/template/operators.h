// What +, ~, <, in, [] and . do with values.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include "core/text/template/ast.h"
#include "core/text/template/runtime.h"

namespace bonsai::jinja {

// Errors name the types: `cannot use '+' between a string and an integer`.
Value arithmetic(Runtime &runtime, Arithmetic::Operator op, const Value &left, const Value &right);
Value negate(Runtime &runtime, Unary::Operator op, const Value &operand);
// nullopt after an error.
std::optional<bool> compare(Runtime &runtime, Comparison::Operator op, const Value &left, const Value &right);
// `item in container`: a substring, an element or a key.
std::optional<bool> contains(Runtime &runtime, const Value &container, const Value &item);
// Python's ==: numbers by value whatever their type, sequences and dicts by their elements. False after an error.
bool equal(Runtime &runtime, const Value &a, const Value &b);
// nullopt where Python has no order, text against numbers, say; and after an error. NaN is unordered.
std::optional<std::partial_ordering> order(Runtime &runtime, const Value &a, const Value &b);

// The value of a key; null: absent, or an error.
const Value *find_key(Runtime &runtime, const DictItems &items, const Value &key);
const Value *find_key(Runtime &runtime, const DictItems &items, std::string_view key);
void set_key(Runtime &runtime, DictItems &items, Value key, Value value);

// object.name: a method or field before an item. Undefined where there is neither.
Value attribute(Runtime &runtime, const Value &object, std::string_view name);
// object[key]: an item before a method or field.
Value item(Runtime &runtime, const Value &object, const Value &key);
// object[start:stop:step]; undefined or none: left out.
struct SliceBounds {
  Value start, stop, step;
};
Value slice(Runtime &runtime, const Value &object, const SliceBounds &bounds);

// The elements of a sequence that are still to be walked over, the keys of a mapping, the characters of a text, nothing
// of undefined; a generator is used up. Anything else is an error.
std::vector<Value> items_of(Runtime &runtime, const Value &value);

// len(). nullopt, without an error: it has none.
std::optional<int64_t> length_of(const Value &value);

}  // namespace bonsai::jinja
