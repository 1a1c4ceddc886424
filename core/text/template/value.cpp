#include "core/text/template/value.h"

#include <algorithm>
#include <compare>
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

// Lists and tuples are never equal; a range is its own kind.
bool same_kind(const Sequence &a, const Sequence &b) { return a.kind == b.kind && a.is_indexed(); }

bool equal_sequences(const Sequence &a, const Sequence &b) {
  if (&a == &b) return true;
  return same_kind(a, b) && std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
}

bool equal_dicts(const Dict &a, const Dict &b) {
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&b](const auto &item) {
    const Value *other = b.find(item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

int sign(std::strong_ordering order) { return order < 0 ? -1 : order > 0 ? 1 : 0; }

std::optional<int> compare_sequences(const Sequence &a, const Sequence &b) {
  if (!same_kind(a, b) || a.kind == Sequence::Kind::kRange) return std::nullopt;
  const size_t n = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < n; ++i)
    if (!equal(a.items[i], b.items[i])) return compare(a.items[i], b.items[i]);
  return sign(a.items.size() <=> b.items.size());
}

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

const Value *Dict::find(const Value &key) const {
  for (const auto &[name, value] : items)
    if (equal(name, key)) return &value;
  return nullptr;
}

const Value *Dict::find(std::string_view key) const {
  for (const auto &[name, value] : items)
    if (name.text() != nullptr && name.text()->bytes() == key) return &value;
  return nullptr;
}

const Value *Namespace::find(std::string_view name) const {
  for (const auto &[field, value] : fields)
    if (field == name) return &value;
  return nullptr;
}

void Namespace::set(std::string_view name, Value value) {
  for (auto &[field, old] : fields)
    if (field == name) return void(old = std::move(value));
  fields.emplace_back(name, std::move(value));
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

bool equal(const Value &a, const Value &b) {
  const auto whole_a = a.as_integer(), whole_b = b.as_integer();
  if (whole_a && whole_b) return *whole_a == *whole_b;
  if (const auto x = a.as_real(), y = b.as_real(); x || y) return x && y && *x == *y;
  if (a.text() != nullptr && b.text() != nullptr) return a.text()->bytes() == b.text()->bytes();
  if (a.sequence() != nullptr && b.sequence() != nullptr) return equal_sequences(*a.sequence(), *b.sequence());
  if (a.dict() != nullptr && b.dict() != nullptr) return a.dict() == b.dict() || equal_dicts(*a.dict(), *b.dict());
  if (a.any().index() != b.any().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  return a.name_space() != nullptr && a.name_space() == b.name_space();
}

std::optional<int> compare(const Value &a, const Value &b) {
  const auto whole_a = a.as_integer(), whole_b = b.as_integer();
  if (whole_a && whole_b) return sign(*whole_a <=> *whole_b);
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x < *y ? -1 : *x > *y ? 1 : 0;
  // UTF-8 sorts bytewise as its code points do.
  if (a.text() != nullptr && b.text() != nullptr) return sign(a.text()->bytes().compare(b.text()->bytes()) <=> 0);
  if (a.sequence() != nullptr && b.sequence() != nullptr) return compare_sequences(*a.sequence(), *b.sequence());
  return std::nullopt;
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
