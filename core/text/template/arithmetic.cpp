#include <cmath>
#include <limits>

#include "core/text/template/format.h"
#include "core/text/template/operators.h"

namespace bonsai::jinja {
namespace {

using Operator = Arithmetic::Operator;

std::string_view spelling(Operator op) {
  constexpr std::string_view kSpellings[] = {"+", "-", "*", "/", "//", "%", "**"};
  return kSpellings[static_cast<size_t>(op)];
}

Value too_large(Runtime &runtime) { return runtime.fail("an integer exceeds 64 bits"); }

Value power(Runtime &runtime, int64_t base, int64_t exponent) {
  if (exponent < 0) return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  int64_t result = 1;
  // Beyond 63 steps only 0, 1 and -1 stay within 64 bits.
  if (exponent > 64 && base >= -1 && base <= 1) exponent = 2 + exponent % 2;
  for (int64_t i = 0; i < exponent; ++i)
    if (__builtin_mul_overflow(result, base, &result)) return too_large(runtime);
  return result;
}

// Rounded towards minus infinity, as Python does.
Value floor_divide(Runtime &runtime, Operator op, int64_t left, int64_t right) {
  if (right == 0) return runtime.fail("division by zero");
  if (left == std::numeric_limits<int64_t>::min() && right == -1)
    return op == Operator::kModulo ? Value(int64_t{0}) : too_large(runtime);
  const int64_t quotient = left / right, remainder = left % right;
  const bool rounds_up = remainder != 0 && (remainder < 0) != (right < 0);
  if (op == Operator::kModulo) return rounds_up ? remainder + right : remainder;
  return rounds_up ? quotient - 1 : quotient;
}

Value integers(Runtime &runtime, Operator op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(left, right, &result);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(left, right, &result);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(left, right, &result);
      break;
    case Operator::kPower:
      if (left == 0 && right < 0) return runtime.fail("division by zero");
      return power(runtime, left, right);
    case Operator::kDivide:
      if (right == 0) return runtime.fail("division by zero");
      return static_cast<double>(left) / static_cast<double>(right);
    default:
      return floor_divide(runtime, op, left, right);
  }
  return overflows ? too_large(runtime) : Value(result);
}

// Python's: the remainder has the divisor's sign.
double modulo(double left, double right) {
  const double remainder = std::fmod(left, right);
  if (remainder == 0) return std::copysign(0.0, right);
  return (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

Value reals(Runtime &runtime, Operator op, double left, double right) {
  switch (op) {
    case Operator::kAdd:
      return left + right;
    case Operator::kSubtract:
      return left - right;
    case Operator::kMultiply:
      return left * right;
    case Operator::kPower:
      return std::pow(left, right);
    default:
      break;
  }
  if (right == 0) return runtime.fail("division by zero");
  if (op == Operator::kDivide) return left / right;
  if (op == Operator::kModulo) return modulo(left, right);
  return std::floor(left / right);
}

Value repeat_text(Runtime &runtime, const TracedText &text, int64_t times) {
  TextBuilder out(runtime);
  if (text.empty()) return TracedText();
  for (int64_t i = 0; i < times && !runtime.failed(); ++i) out.append(text);
  return out.take();
}

Value repeat_items(Runtime &runtime, const Sequence &sequence, int64_t times) {
  const size_t n = times <= 0 ? 0 : sequence.items.size();
  std::vector<Value> items;
  for (int64_t i = 0; i < times && n > 0 && runtime.spend(n); ++i)
    items.insert(items.end(), sequence.items.begin(), sequence.items.end());
  return runtime.list(std::move(items), sequence.kind);
}

bool can_join(const Value &value) {
  const Sequence *sequence = value.sequence();
  return sequence != nullptr && (sequence->kind == Sequence::Kind::kList || sequence->kind == Sequence::Kind::kTuple);
}

Value no_operator(Runtime &runtime, Operator op, const Value &left, const Value &right) {
  if (left.is_undefined()) return runtime.fail_undefined(left);
  if (right.is_undefined()) return runtime.fail_undefined(right);
  return runtime.fail("cannot use '{}' between {} and {}", spelling(op), type_name(left), type_name(right));
}

Value add(Runtime &runtime, const Value &left, const Value &right) {
  if (left.text() != nullptr && right.text() != nullptr) {
    TextBuilder out(runtime);
    out.append(*left.text());
    out.append(*right.text());
    return out.take();
  }
  if (can_join(left) && can_join(right) && left.sequence()->kind == right.sequence()->kind) {
    std::vector<Value> items = left.sequence()->items;
    items.insert(items.end(), right.sequence()->items.begin(), right.sequence()->items.end());
    return runtime.list(std::move(items), left.sequence()->kind);
  }
  return no_operator(runtime, Operator::kAdd, left, right);
}

Value multiply(Runtime &runtime, const Value &left, const Value &right) {
  const bool swapped = left.as_integer().has_value();
  const Value &what = swapped ? right : left;
  const auto times = (swapped ? left : right).as_integer();
  if (times && what.text() != nullptr) return repeat_text(runtime, *what.text(), *times);
  if (times && can_join(what)) return repeat_items(runtime, *what.sequence(), *times);
  return no_operator(runtime, Operator::kMultiply, left, right);
}

}  // namespace

Value arithmetic(Runtime &runtime, Operator op, const Value &left, const Value &right) {
  const auto whole_left = left.as_integer(), whole_right = right.as_integer();
  if (whole_left && whole_right) return integers(runtime, op, *whole_left, *whole_right);
  const auto real_left = left.as_real(), real_right = right.as_real();
  if (real_left && real_right) return reals(runtime, op, *real_left, *real_right);
  if (op == Operator::kAdd) return add(runtime, left, right);
  if (op == Operator::kMultiply) return multiply(runtime, left, right);
  if (op == Operator::kModulo && left.text() != nullptr) return fill_places(runtime, *left.text(), right);
  return no_operator(runtime, op, left, right);
}

Value negate(Runtime &runtime, Unary::Operator op, const Value &operand) {
  const bool minus = op == Unary::Operator::kMinus;
  if (const auto number = operand.as_integer()) {
    if (minus && *number == std::numeric_limits<int64_t>::min()) return too_large(runtime);
    return minus ? -*number : *number;
  }
  if (const auto number = operand.as_real()) return minus ? -*number : *number;
  if (operand.is_undefined()) return runtime.fail_undefined(operand);
  return runtime.fail("cannot use '{}' before {}", minus ? "-" : "+", type_name(operand));
}

}  // namespace bonsai::jinja
