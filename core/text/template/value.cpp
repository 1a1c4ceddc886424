#include "core/text/template/value.h"

#include <algorithm>
#include <limits>

namespace bonsai::jinja {
namespace {

struct TypeName {
  std::string_view operator()(const Undefined &) const { return "undefined"; }
  std::string_view operator()(const None &) const { return "none"; }
  std::string_view operator()(bool) const { return "boolean"; }
  std::string_view operator()(int64_t) const { return "integer"; }
  std::string_view operator()(double) const { return "float"; }
  std::string_view operator()(const std::shared_ptr<const TracedText> &) const { return "string"; }
  std::string_view operator()(const std::shared_ptr<Sequence> &sequence) const {
    switch (sequence->kind) {
      case Sequence::Kind::kList:
        return "list";
      case Sequence::Kind::kTuple:
        return "tuple";
      case Sequence::Kind::kRange:
        return "range";
      case Sequence::Kind::kGenerator:
        return "generator";
      default:
        return "view of a mapping";
    }
  }
  std::string_view operator()(const std::shared_ptr<const Dict> &) const { return "mapping"; }
  std::string_view operator()(const std::shared_ptr<Namespace> &) const { return "namespace"; }
  std::string_view operator()(const std::shared_ptr<const Callable> &) const { return "function"; }
  std::string_view operator()(const std::shared_ptr<const Loop> &) const { return "loop"; }
};

}  // namespace

Value Value::undefined(std::string why) {
  Value value;
  value.any_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

std::optional<int64_t> Value::as_integer() const {
  if (const bool *flag = boolean()) return *flag ? 1 : 0;
  if (const int64_t *number = integer()) return *number;
  return std::nullopt;
}

std::optional<double> Value::as_real() const {
  if (const double *number = real()) return *number;
  if (const auto number = as_integer()) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view type_name(const Value &value) { return std::visit(TypeName(), value.any()); }

bool is_true(const Value &value) {
  if (const bool *flag = value.boolean()) return *flag;
  if (const auto number = value.as_real()) return *number != 0;
  if (const TracedText *text = value.text()) return !text->empty();
  if (const Dict *dict = value.dict()) return !dict->items.empty();
  if (const Sequence *sequence = value.sequence())
    return sequence->kind == Sequence::Kind::kGenerator || !sequence->items.empty();
  return !value.is_undefined() && !value.is_none();
}

void Extent::add(const Extent &item) {
  depth = std::max(depth, item.depth + 1);
  if (__builtin_add_overflow(steps, item.steps, &steps)) steps = std::numeric_limits<uint64_t>::max();
}

Extent extent_of(const Value &value) {
  if (const Sequence *sequence = value.sequence()) return sequence->extent;
  if (const Dict *dict = value.dict()) return dict->extent;
  if (const TracedText *text = value.text()) return {0, 1 + text->size() / 16};
  if (const Loop *loop = value.loop()) return {loop->depth, 1};
  if (const Callable *callable = value.callable()) return {1 + extent_of(callable->self).depth, 1};
  return {};
}

}  // namespace bonsai::jinja
