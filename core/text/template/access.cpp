// Comparison operators, membership, attributes, items and slices.
#include <algorithm>
#include <array>
#include <limits>

#include "core/base/utf8.h"
#include "core/text/template/builtins.h"
#include "core/text/template/characters.h"
#include "core/text/template/operators.h"

namespace bonsai::jinja {
namespace {

std::string_view spelling(Comparison::Operator op) {
  constexpr std::string_view kSpellings[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSpellings[static_cast<size_t>(op)];
}

bool holds(Comparison::Operator op, std::partial_ordering order) {
  switch (op) {
    case Comparison::Operator::kLess:
      return order < 0;
    case Comparison::Operator::kLessOrEqual:
      return order <= 0;
    case Comparison::Operator::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

// A method as a value; null: there is none of that name.
Value method(const Value &object, std::string_view name) {
  const Builtin *builtin = object.text() != nullptr   ? find_text_method(name)
                           : object.dict() != nullptr ? find_dict_method(name)
                           : object.sequence() != nullptr && object.sequence()->kind == Sequence::Kind::kList
                               ? find_list_method(name)
                               : nullptr;
  if (builtin == nullptr) return {};
  return std::make_shared<const Callable>(Callable{.builtin = builtin, .self = object});
}

// Whether what it is given is other than in the turn before; so it is the first time.
Value loop_changed(Call &call) {
  if (!call.rest().named.empty()) return call.fail("has no parameter {}", bonsai::quoted(call.rest().named[0].first));
  const auto told = call.self().loop()->told.lock();
  if (told == nullptr) return call.fail("the loop is over");
  Value now = call.runtime().list(std::move(call.rest().positional), Sequence::Kind::kTuple);
  const bool is_same = equal(call.runtime(), *told, now);
  *told = std::move(now);
  return !is_same;
}

Value loop_field(const Value &object, std::string_view name) {
  const Loop &loop = *object.loop();
  const auto number = [](size_t n) { return Value(static_cast<int64_t>(n)); };
  if (name == "index") return number(loop.index0 + 1);
  if (name == "index0") return number(loop.index0);
  if (name == "revindex") return number(loop.length - loop.index0);
  if (name == "revindex0") return number(loop.length - loop.index0 - 1);
  if (name == "first") return loop.index0 == 0;
  if (name == "last") return loop.index0 + 1 == loop.length;
  if (name == "length") return number(loop.length);
  // Jinja counts the turns of recursive loops only.
  if (name == "depth") return number(1);
  if (name == "depth0") return number(0);
  if (name == "previtem") return loop.previous;
  if (name == "nextitem") return loop.next;
  static constexpr Builtin kCycle = {"cycle", "*", 0, [](Call &call) -> Value {
                                       const std::vector<Value> &values = call.rest().positional;
                                       if (values.empty()) return call.fail("expected at least one value");
                                       return values[call.self().loop()->index0 % values.size()];
                                     }};
  static constexpr Builtin kChanged = {"changed", "*", 0, loop_changed};
  for (const Builtin *builtin : {&kCycle, &kChanged}) {
    if (name == builtin->name) return std::make_shared<const Callable>(Callable{.builtin = builtin, .self = object});
  }
  return {};
}

Value no_attribute(const Value &object, std::string_view name) {
  return Value::undefined(fmt::format("{} has no {}", type_name(object), bonsai::quoted(name)));
}

// Element `index` of a sequence or text, counted from the end if negative; undefined beyond its ends.
Value element(const Value &object, int64_t index) {
  const auto beyond = [&] { return Value::undefined(fmt::format("{} has no element {}", type_name(object), index)); };
  if (const Sequence *sequence = object.sequence()) {
    const auto size = static_cast<int64_t>(sequence->items.size());
    if (!sequence->is_indexed() || index >= size || index < -size) return beyond();
    return sequence->items[static_cast<size_t>(index < 0 ? index + size : index)];
  }
  const std::string_view bytes = object.text()->bytes();
  const auto size = static_cast<int64_t>(count_characters(bytes));
  if (index >= size || index < -size) return beyond();
  const size_t at = index < 0 ? moved_by(bytes, bytes.size(), index) : moved_by(bytes, 0, index);
  return object.text()->slice({at, moved_by(bytes, at, 1)});
}

// A field or item that is there; nullopt otherwise.
std::optional<Value> find_item(Runtime &runtime, const Value &object, const Value &key) {
  const Value *found = nullptr;
  if (const Dict *dict = object.dict()) {
    found = find_key(runtime, dict->items, key);
  } else if (const auto index = key.as_integer(); index && (object.sequence() != nullptr || object.text() != nullptr)) {
    Value value = element(object, *index);
    if (!value.is_undefined()) return value;
  }
  return found == nullptr ? std::nullopt : std::optional(*found);
}

// The places that a slice takes from `size` elements, as Python's slice.indices() has them.
struct Steps {
  int64_t at, stop, step;
  bool more() const { return step > 0 ? at < stop : at > stop; }
  int64_t take() { return std::exchange(at, at + step); }
};

std::optional<int64_t> bound(Runtime &runtime, const Value &value, int64_t fallback) {
  if (value.is_undefined() || value.is_none()) return fallback;
  const auto number = value.as_integer();
  if (!number) runtime.fail("a slice's bounds are integers, found {}", type_name(value));
  return number;
}

std::optional<Steps> steps(Runtime &runtime, const SliceBounds &bounds, int64_t size) {
  const auto step = bound(runtime, bounds.step, 1);
  if (!step) return std::nullopt;
  if (*step == 0) return runtime.fail("a slice's step cannot be 0"), std::nullopt;
  const int64_t low = *step > 0 ? 0 : -1, high = *step > 0 ? size : size - 1;
  const auto clip = [&](int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const bool has_start = !bounds.start.is_undefined() && !bounds.start.is_none();
  const bool has_stop = !bounds.stop.is_undefined() && !bounds.stop.is_none();
  const auto start = bound(runtime, bounds.start, 0), stop = bound(runtime, bounds.stop, 0);
  if (!start || !stop) return std::nullopt;
  // Beyond `size` one step is as good as another, and cannot overflow.
  const int64_t most = size + 1;
  return Steps{has_start   ? clip(*start)
               : *step > 0 ? low
                           : high,
               has_stop    ? clip(*stop)
               : *step > 0 ? high
                           : low,
               std::clamp(*step, -most, most)};
}

Value slice_text(Runtime &runtime, const TracedText &text, const SliceBounds &bounds) {
  const std::string_view bytes = text.bytes();
  auto places = steps(runtime, bounds, static_cast<int64_t>(count_characters(bytes)));
  if (!places || !places->more()) return TracedText();
  TextBuilder out(runtime);
  size_t at = moved_by(bytes, 0, places->at);
  if (places->step == 1) {
    out.append(text, {at, moved_by(bytes, at, places->stop - places->at)});
    return out.take();
  }
  for (; places->more() && !runtime.failed(); places->take()) {
    out.append(text, {at, moved_by(bytes, at, 1)});
    at = moved_by(bytes, at, places->step);
  }
  return out.take();
}

bool spend_on_text(Runtime &runtime, const Value &value) {
  return value.text() == nullptr || runtime.spend_on_items(value.text()->size());
}

}  // namespace

std::optional<bool> compare(Runtime &runtime, Comparison::Operator op, const Value &left, const Value &right) {
  using Operator = Comparison::Operator;
  if (op == Operator::kEqual) return equal(runtime, left, right);
  if (op == Operator::kNotEqual) return !equal(runtime, left, right);
  if (op == Operator::kIn || op == Operator::kNotIn) {
    const auto found = contains(runtime, right, left);
    return found ? std::optional(*found == (op == Operator::kIn)) : std::nullopt;
  }
  if (left.is_undefined()) return runtime.fail_undefined(left), std::nullopt;
  if (right.is_undefined()) return runtime.fail_undefined(right), std::nullopt;
  if (const auto found = order(runtime, left, right)) return holds(op, *found);
  runtime.fail("cannot use '{}' between {} and {}", spelling(op), type_name(left), type_name(right));
  return std::nullopt;
}

std::optional<bool> contains(Runtime &runtime, const Value &container, const Value &item) {
  if (const TracedText *text = container.text()) {
    if (item.is_undefined()) return runtime.fail_undefined(item), std::nullopt;
    if (item.text() == nullptr)
      return runtime.fail("'in' a string: expected a string, found {}", type_name(item)), std::nullopt;
    if (!runtime.spend_on_search(text->size(), item.text()->size())) return std::nullopt;
    return find_bytes(text->bytes(), item.text()->bytes()) != std::string_view::npos;
  }
  if (const Dict *dict = container.dict()) return find_key(runtime, dict->items, item) != nullptr;
  // Looks at a generator's elements up to the one that it finds.
  if (Sequence *sequence = container.sequence(); sequence != nullptr && sequence->kind == Sequence::Kind::kGenerator) {
    while (sequence->n_taken < sequence->items.size() && !runtime.failed())
      if (equal(runtime, sequence->items[sequence->n_taken++], item)) return true;
    return false;
  }
  const std::vector<Value> items = items_of(runtime, container);
  const auto same = [&](const Value &element) { return equal(runtime, element, item); };
  return std::any_of(items.begin(), items.end(), same);
}

Value attribute(Runtime &runtime, const Value &object, std::string_view name) {
  if (object.is_undefined()) return runtime.fail_undefined(object);
  if (object.loop() != nullptr) {
    Value field = loop_field(object, name);
    return field.is_undefined() ? no_attribute(object, name) : field;
  }
  if (const Namespace *fields = object.name_space()) {
    const Value *field = runtime.find(fields->fields, name);
    return field == nullptr ? no_attribute(object, name) : *field;
  }
  if (Value found = method(object, name); !found.is_undefined()) return found;
  if (const Sequence *sequence = object.sequence(); sequence != nullptr && sequence->is_group) {
    if (name == "grouper") return sequence->items[0];
    if (name == "list") return sequence->items[1];
  }
  if (const Dict *dict = object.dict()) {
    if (const Value *value = find_key(runtime, dict->items, name)) return *value;
  }
  return no_attribute(object, name);
}

Value item(Runtime &runtime, const Value &object, const Value &key) {
  if (object.is_undefined()) return runtime.fail_undefined(object);
  if (!spend_on_text(runtime, object)) return {};
  if (auto found = find_item(runtime, object, key)) return *std::move(found);
  if (key.text() != nullptr) return attribute(runtime, object, key.text()->bytes());
  return Value::undefined(fmt::format("{} has no element {}", type_name(object),
                                      key.as_integer() ? std::to_string(*key.as_integer()) : type_name(key)));
}

Value slice(Runtime &runtime, const Value &object, const SliceBounds &bounds) {
  if (object.is_undefined()) return runtime.fail_undefined(object);
  if (!spend_on_text(runtime, object)) return {};
  if (const TracedText *text = object.text()) return slice_text(runtime, *text, bounds);
  const Sequence *sequence = object.sequence();
  if (sequence == nullptr || !sequence->is_indexed()) return runtime.fail("{} has no slices", type_name(object));
  auto places = steps(runtime, bounds, static_cast<int64_t>(sequence->items.size()));
  if (!places) return {};
  std::vector<Value> items;
  while (places->more()) items.push_back(sequence->items[static_cast<size_t>(places->take())]);
  const bool is_tuple = sequence->kind == Sequence::Kind::kTuple;
  return runtime.list(std::move(items), is_tuple ? Sequence::Kind::kTuple : Sequence::Kind::kList);
}

std::vector<Value> items_of(Runtime &runtime, const Value &value) {
  std::vector<Value> items;
  if (Sequence *sequence = value.sequence()) {
    const size_t from = sequence->n_taken;
    if (sequence->kind == Sequence::Kind::kGenerator) sequence->n_taken = sequence->items.size();
    if (!runtime.spend(sequence->items.size())) return {};
    items.assign(sequence->items.begin() + static_cast<ptrdiff_t>(from), sequence->items.end());
  } else if (const Dict *dict = value.dict()) {
    if (!runtime.spend(dict->items.size())) return {};
    for (const auto &[key, unused] : dict->items) items.push_back(key);
  } else if (const TracedText *text = value.text()) {
    if (!spend_on_text(runtime, value) || !runtime.spend_on_parts(count_characters(text->bytes()))) return {};
    for (size_t at = 0, end = 0; at < text->size(); at = end) {
      end = moved_by(text->bytes(), at, 1);
      items.push_back(text->slice({at, end}));
    }
  } else if (!value.is_undefined()) {
    runtime.fail("cannot walk over {}", type_name(value));
  }
  return items;
}

std::optional<int64_t> length_of(const Value &value) {
  if (value.is_undefined()) return 0;
  if (const TracedText *text = value.text()) return static_cast<int64_t>(count_characters(text->bytes()));
  if (const Dict *dict = value.dict()) return static_cast<int64_t>(dict->items.size());
  const Sequence *sequence = value.sequence();
  if (sequence == nullptr || sequence->kind == Sequence::Kind::kGenerator) return std::nullopt;
  return static_cast<int64_t>(sequence->items.size());
}

}  // namespace bonsai::jinja
