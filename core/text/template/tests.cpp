// What can stand behind `is` (https://jinja.palletsprojects.com/templates/#list-of-builtin-tests).
#include "core/text/template/builtins.h"
#include "core/text/template/characters.h"
#include "core/text/template/operators.h"
#include "core/text/template/text_operations.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

Value verdict(std::optional<bool> holds) { return holds ? Value(*holds) : Value(); }

template <Comparison::Operator kOperator>
Value compared(Call &call) {
  return verdict(compare(call.runtime(), kOperator, call.self(), call[0]));
}

// self % divisor == remainder
Value leaves(Call &call, const Value &divisor, int64_t remainder) {
  const Value rest = arithmetic(call.runtime(), Arithmetic::Operator::kModulo, call.self(), divisor);
  return equal(call.runtime(), rest, remainder);
}

bool is_flag(const Value &value, bool flag) { return value.boolean() != nullptr && *value.boolean() == flag; }

bool is_sequence(const Value &value) {
  const Sequence *sequence = value.sequence();
  return value.is_undefined() || value.text() != nullptr || value.dict() != nullptr ||
         (sequence != nullptr && sequence->is_indexed());
}

bool is_iterable(const Value &value) { return is_sequence(value) || value.sequence() != nullptr; }

// Python keeps one object for equal texts of at most one character, but for those beyond Latin-1.
bool is_same_text(Runtime &runtime, const TracedText &a, const TracedText &b) {
  if (&a == &b) return true;
  size_t at = 0;
  const bool is_kept = a.empty() || (text::next_code_point(a.bytes(), at) < 0x100 && at == a.size());
  return is_kept && runtime.same(a.bytes(), b.bytes());
}

// The same object, or the same simple value.
bool is_same(Runtime &runtime, const Value &a, const Value &b) {
  if (a.any().index() != b.any().index()) return false;
  if (a.text() != nullptr) return is_same_text(runtime, *a.text(), *b.text());
  if (a.sequence() != nullptr) return a.sequence() == b.sequence();
  if (a.dict() != nullptr) return a.dict() == b.dict();
  return equal(runtime, a, b);
}

Value in_case(Call &call, Case to, Case opposite) {
  const TracedText text = call.printed_self();
  return change_case(call.runtime(), text, to).bytes() == text.bytes() &&
         change_case(call.runtime(), text, opposite).bytes() != text.bytes();
}

Value names_one(Call &call, const Builtin *(*find)(std::string_view)) {
  return call.self().text() != nullptr && find(call.self().text()->bytes()) != nullptr;
}

using Operator = Comparison::Operator;

constexpr Builtin kTests[] = {
    {"defined", "", 0, [](Call &call) -> Value { return !call.self().is_undefined(); }},
    {"undefined", "", 0, [](Call &call) -> Value { return call.self().is_undefined(); }},
    {"none", "", 0, [](Call &call) -> Value { return call.self().is_none(); }},
    {"boolean", "", 0, [](Call &call) -> Value { return call.self().boolean() != nullptr; }},
    {"true", "", 0, [](Call &call) -> Value { return is_flag(call.self(), true); }},
    {"false", "", 0, [](Call &call) -> Value { return is_flag(call.self(), false); }},
    {"integer", "", 0, [](Call &call) -> Value { return call.self().integer() != nullptr; }},
    {"float", "", 0, [](Call &call) -> Value { return call.self().real() != nullptr; }},
    {"number", "", 0, [](Call &call) -> Value { return call.self().as_real().has_value(); }},
    {"string", "", 0, [](Call &call) -> Value { return call.self().text() != nullptr; }},
    {"mapping", "", 0, [](Call &call) -> Value { return call.self().dict() != nullptr; }},
    {"sequence", "", 0, [](Call &call) -> Value { return is_sequence(call.self()); }},
    {"iterable", "", 0, [](Call &call) -> Value { return is_iterable(call.self()); }},
    {"callable", "", 0,
     [](Call &call) -> Value { return call.self().callable() != nullptr || call.self().is_undefined(); }},
    {"sameas", "other", 1, [](Call &call) -> Value { return is_same(call.runtime(), call.self(), call[0]); }},
    {"odd", "", 0, [](Call &call) { return leaves(call, int64_t{2}, 1); }},
    {"even", "", 0, [](Call &call) { return leaves(call, int64_t{2}, 0); }},
    {"divisibleby", "num", 1, [](Call &call) { return leaves(call, call[0], 0); }},
    {"lower", "", 0, [](Call &call) { return in_case(call, Case::kLower, Case::kUpper); }},
    {"upper", "", 0, [](Call &call) { return in_case(call, Case::kUpper, Case::kLower); }},
    {"escaped", "", 0, [](Call &) -> Value { return false; }},
    {"filter", "", 0, [](Call &call) { return names_one(call, find_filter); }},
    {"test", "", 0, [](Call &call) { return names_one(call, find_test); }},
    {"in", "seq", 1, compared<Operator::kIn>},
    {"eq", "other", 1, compared<Operator::kEqual>},
    {"equalto", "other", 1, compared<Operator::kEqual>},
    {"==", "other", 1, compared<Operator::kEqual>},
    {"ne", "other", 1, compared<Operator::kNotEqual>},
    {"!=", "other", 1, compared<Operator::kNotEqual>},
    {"lt", "other", 1, compared<Operator::kLess>},
    {"lessthan", "other", 1, compared<Operator::kLess>},
    {"<", "other", 1, compared<Operator::kLess>},
    {"le", "other", 1, compared<Operator::kLessOrEqual>},
    {"<=", "other", 1, compared<Operator::kLessOrEqual>},
    {"gt", "other", 1, compared<Operator::kGreater>},
    {"greaterthan", "other", 1, compared<Operator::kGreater>},
    {">", "other", 1, compared<Operator::kGreater>},
    {"ge", "other", 1, compared<Operator::kGreaterOrEqual>},
    {">=", "other", 1, compared<Operator::kGreaterOrEqual>},
};

}  // namespace

const Builtin *find_test(std::string_view name) { return find_in(kTests, name); }

}  // namespace bonsai::jinja
