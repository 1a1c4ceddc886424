// Equality, order, and keys that are looked for. All of it spends what it walks over, as it goes.
#include <algorithm>
#include <compare>

#include "core/text/template/operators.h"

namespace bonsai::jinja {
namespace {

// Of values that hold no others.
bool equal_simple(const Value &a, const Value &b) {
  if (a.integer() != nullptr && b.integer() != nullptr) return *a.integer() == *b.integer();
  const auto whole_a = a.as_integer(), whole_b = b.as_integer();
  if (whole_a && whole_b) return *whole_a == *whole_b;
  if (const auto x = a.as_real(), y = b.as_real(); x || y) return x && y && *x == *y;
  if (a.any().index() != b.any().index()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  return a.name_space() != nullptr && a.name_space() == b.name_space();
}

// Lists and tuples are never equal; a range is its own kind.
bool same_kind(const Sequence &a, const Sequence &b) { return a.kind == b.kind && a.is_indexed(); }

bool equal_sequences(Runtime &runtime, const Sequence &a, const Sequence &b) {
  if (&a == &b) return true;
  const auto same = [&](const Value &x, const Value &y) { return equal(runtime, x, y); };
  return same_kind(a, b) && std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), same);
}

bool equal_dicts(Runtime &runtime, const Dict &a, const Dict &b) {
  if (&a == &b) return true;
  if (a.items.size() != b.items.size()) return false;
  return std::all_of(a.items.begin(), a.items.end(), [&](const auto &item) {
    const Value *other = find_key(runtime, b.items, item.first);
    return other != nullptr && equal(runtime, item.second, *other);
  });
}

bool have_order(const Sequence &a, const Sequence &b) { return same_kind(a, b) && a.kind != Sequence::Kind::kRange; }

// By the first elements that differ. One walk over elements that are sequences finds whether they do, and how.
std::optional<std::partial_ordering> order_of_sequences(Runtime &runtime, const Sequence &a, const Sequence &b) {
  if (!have_order(a, b)) return std::nullopt;
  const size_t n = std::min(a.items.size(), b.items.size());
  for (size_t i = 0; i < n && !runtime.failed(); ++i) {
    const Value &x = a.items[i], &y = b.items[i];
    const bool are_sequences = x.sequence() != nullptr && y.sequence() != nullptr && x.sequence() != y.sequence();
    if (are_sequences && have_order(*x.sequence(), *y.sequence())) {
      const auto inner = order(runtime, x, y);
      if (!inner || *inner != 0) return inner;
    } else if (!equal(runtime, x, y)) {
      return order(runtime, x, y);
    }
  }
  return a.items.size() <=> b.items.size();
}

bool spend_on_keys(Runtime &runtime, const DictItems &items) { return runtime.spend(items.size() / 4); }

// The place of the item with a key; their number: there is none.
size_t place_of(Runtime &runtime, const DictItems &items, const Value &key) {
  if (!spend_on_keys(runtime, items)) return items.size();
  const auto has_key = [&](const auto &item) {
    const TracedText *a = item.first.text(), *b = key.text();
    if (a == nullptr || b == nullptr) return a == b && equal_simple(item.first, key);
    return runtime.same(a->bytes(), b->bytes());
  };
  return static_cast<size_t>(std::find_if(items.begin(), items.end(), has_key) - items.begin());
}

}  // namespace

bool equal(Runtime &runtime, const Value &a, const Value &b) {
  if (!runtime.spend(1)) return false;
  if (a.text() != nullptr && b.text() != nullptr) return runtime.same(a.text()->bytes(), b.text()->bytes());
  if (a.sequence() != nullptr && b.sequence() != nullptr) return equal_sequences(runtime, *a.sequence(), *b.sequence());
  if (a.dict() != nullptr && b.dict() != nullptr) return equal_dicts(runtime, *a.dict(), *b.dict());
  return equal_simple(a, b);
}

std::optional<std::partial_ordering> order(Runtime &runtime, const Value &a, const Value &b) {
  if (!runtime.spend(1)) return std::nullopt;
  const auto whole_a = a.as_integer(), whole_b = b.as_integer();
  if (whole_a && whole_b) return *whole_a <=> *whole_b;
  if (const auto x = a.as_real(), y = b.as_real(); x && y) return *x <=> *y;
  if (a.sequence() != nullptr && b.sequence() != nullptr)
    return order_of_sequences(runtime, *a.sequence(), *b.sequence());
  if (a.text() == nullptr || b.text() == nullptr) return std::nullopt;
  if (!runtime.spend_on_items(std::min(a.text()->size(), b.text()->size()))) return std::nullopt;
  // UTF-8 sorts bytewise as its code points do.
  return a.text()->bytes() <=> b.text()->bytes();
}

const Value *find_key(Runtime &runtime, const DictItems &items, const Value &key) {
  const size_t place = place_of(runtime, items, key);
  return place == items.size() ? nullptr : &items[place].second;
}

const Value *find_key(Runtime &runtime, const DictItems &items, std::string_view key) {
  if (!spend_on_keys(runtime, items)) return nullptr;
  for (const auto &[name, value] : items)
    if (name.text() != nullptr && runtime.same(name.text()->bytes(), key)) return &value;
  return nullptr;
}

void set_key(Runtime &runtime, DictItems &items, Value key, Value value) {
  const size_t place = place_of(runtime, items, key);
  if (place < items.size()) {
    items[place].second = std::move(value);
  } else if (!runtime.failed()) {
    items.emplace_back(std::move(key), std::move(value));
  }
}

}  // namespace bonsai::jinja
