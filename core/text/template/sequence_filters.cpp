// Filters on lists and mappings, and those that call other filters and tests by name.
#include <algorithm>
#include <charconv>

#include "core/base/utf8.h"
#include "core/text/template/builtins.h"
#include "core/text/template/characters.h"
#include "core/text/template/operators.h"
#include "core/text/template/print.h"
#include "core/text/template/text_operations.h"

namespace bonsai::jinja {
namespace {

Value generator(Call &call, std::vector<Value> items) {
  return call.runtime().list(std::move(items), Sequence::Kind::kGenerator);
}

std::vector<Value> self_items(Call &call) { return items_of(call.runtime(), call.self()); }

// An item of a value, or `otherwise` if that is given.
Value item_or(Runtime &runtime, const Value &value, const Value &key, const Value &otherwise) {
  Value found = item(runtime, value, key);
  const bool is_given = !otherwise.is_undefined() && !otherwise.is_none();
  return found.is_undefined() && is_given ? otherwise : found;
}

// "a.b.0" of a value: items before fields, numbers as indexes. At each step `otherwise` takes the place of what is not
// there.
Value follow(Runtime &runtime, Value value, std::string_view path, const Value &otherwise) {
  for (;;) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string_view part = path.substr(0, dot);
    if (!runtime.spend(2 + part.size() / 16)) return {};
    int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = error == std::errc() && end == part.data() + part.size() && !part.starts_with('-');
    value = item_or(runtime, value, is_index ? Value(index) : make_text(part, Origin::kTemplate), otherwise);
    if (dot == path.size() || runtime.failed()) return value;
    path.remove_prefix(dot + 1);
  }
}

Value follow(Runtime &runtime, const Value &value, const Value &attribute, const Value &otherwise = {}) {
  if (attribute.text() != nullptr) return follow(runtime, value, attribute.text()->bytes(), otherwise);
  return item_or(runtime, value, attribute, otherwise);
}

// What sort, unique, min and max go by: an attribute where one is given, without regard to case unless told.
Value sort_key(Call &call, const Value &value, const Value &attribute, bool case_sensitive) {
  const bool follows = !attribute.is_undefined() && !attribute.is_none();
  Value key = follows ? follow(call.runtime(), value, attribute) : value;
  if (case_sensitive || key.text() == nullptr) return key;
  return change_case(call.runtime(), *key.text(), Case::kLower);
}

struct Keyed {
  Value key, value;
};

std::vector<Keyed> keyed_items(Call &call, const Value &attribute, bool case_sensitive) {
  std::vector<Keyed> keyed;
  for (Value &value : self_items(call)) {
    if (call.runtime().failed()) break;
    keyed.push_back({sort_key(call, value, attribute, case_sensitive), std::move(value)});
  }
  return keyed;
}

// The order of two keys; nullopt, and an error, where they have none.
std::optional<std::partial_ordering> order_of(Call &call, const Value &a, const Value &b) {
  if (call.runtime().failed()) return std::nullopt;
  const auto found = order(call.runtime(), a, b);
  if (!found) call.fail("cannot compare {} with {}", type_name(a), type_name(b));
  return found;
}

// False, and an error, where one of the keys cannot be compared with the first. Two others then can be compared with
// each other, but for elements of sequences.
bool check_comparable(Call &call, const std::vector<Keyed> &keyed) {
  return std::ranges::all_of(
      keyed, [&](const Keyed &item) { return order_of(call, item.key, keyed.front().key).has_value(); });
}

// False after an error, too.
bool is_less(Call &call, const Keyed &a, const Keyed &b) {
  return order_of(call, a.key, b.key) == std::partial_ordering::less;
}

void stable_sort(Call &call, std::vector<Keyed> &keyed, bool reverse) {
  std::stable_sort(keyed.begin(), keyed.end(),
                   [&](const Keyed &a, const Keyed &b) { return reverse ? is_less(call, b, a) : is_less(call, a, b); });
}

std::vector<Value> values_of(std::vector<Keyed> keyed) {
  std::vector<Value> values;
  for (Keyed &item : keyed) values.push_back(std::move(item.value));
  return values;
}

std::vector<Value> attributes_in(Call &call, const Value &names) {
  if (names.text() == nullptr) return {names};
  const TracedText comma(",", Origin::kTemplate);
  return split(call.runtime(), *names.text(), {.separator = &comma});
}

// Keys of several attributes, "a,b", as lists: where the first is equal, the next decides.
std::vector<Keyed> keyed_by_each(Call &call, const std::vector<Value> &attributes, bool case_sensitive) {
  std::vector<Keyed> keyed;
  for (Value &value : self_items(call)) {
    std::vector<Value> keys;
    for (const Value &attribute : attributes) keys.push_back(sort_key(call, value, attribute, case_sensitive));
    if (call.runtime().failed()) break;
    keyed.push_back({call.runtime().list(std::move(keys)), std::move(value)});
  }
  return keyed;
}

Value sort(Call &call) {
  const std::vector<Value> attributes = attributes_in(call, call[2]);
  const bool case_sensitive = call.flag(1, false);
  std::vector<Keyed> keyed = attributes.size() > 1 ? keyed_by_each(call, attributes, case_sensitive)
                                                   : keyed_items(call, call[2], case_sensitive);
  if (!check_comparable(call, keyed)) return {};
  stable_sort(call, keyed, call.flag(0, false));
  return call.runtime().list(values_of(std::move(keyed)));
}

Value extreme(Call &call, bool greatest) {
  const std::vector<Keyed> keyed = keyed_items(call, call[1], call.flag(0, false));
  if (!check_comparable(call, keyed)) return {};
  if (keyed.empty()) return Value::undefined("the sequence is empty");
  const auto precedes = [&](const Keyed &a, const Keyed &b) {
    return greatest ? is_less(call, b, a) : is_less(call, a, b);
  };
  return std::min_element(keyed.begin(), keyed.end(), precedes)->value;
}

Value unique(Call &call) {
  std::vector<Keyed> kept;
  for (Keyed &item : keyed_items(call, call[1], call.flag(0, false))) {
    const auto same = [&](const Keyed &other) { return equal(call.runtime(), other.key, item.key); };
    if (std::none_of(kept.begin(), kept.end(), same)) kept.push_back(std::move(item));
    if (call.runtime().failed()) return {};
  }
  return generator(call, values_of(std::move(kept)));
}

// Those whose keys are equal, in the order of the keys, as pairs of a name and a list.
Value groupby(Call &call) {
  std::vector<Keyed> keyed;  // pairs of the attribute and the value
  for (Value &value : self_items(call)) {
    Value name = follow(call.runtime(), value, call[0], call[1]);
    Value key = sort_key(call, name, {}, call.flag(2, false));
    if (call.runtime().failed()) return {};
    keyed.push_back({std::move(key), call.runtime().list({std::move(name), std::move(value)})});
  }
  if (!check_comparable(call, keyed)) return {};
  stable_sort(call, keyed, false);
  std::vector<Value> groups;
  for (auto begin = keyed.begin(); begin != keyed.end() && !call.runtime().failed();) {
    const auto differs = [&](const Keyed &item) { return !equal(call.runtime(), item.key, begin->key); };
    const auto end = std::find_if(begin, keyed.end(), differs);
    std::vector<Value> members;
    for (auto item = begin; item != end; ++item) members.push_back(item->value.sequence()->items[1]);
    const Value &name = begin->value.sequence()->items[0];
    groups.push_back(call.runtime().list({name, call.runtime().list(std::move(members))}, Sequence::Kind::kTuple));
    if (Sequence *group = groups.back().sequence()) group->is_group = true;
    begin = end;
  }
  return call.runtime().list(std::move(groups));
}

Value batch(Call &call) {
  const int64_t size = call.integer(0, 0);
  const bool fills = call.has(1) && !call[1].is_none();
  std::vector<Value> batches, batch;
  for (Value &item : self_items(call)) {
    if (static_cast<int64_t>(batch.size()) == size) batches.push_back(call.runtime().list(std::exchange(batch, {})));
    batch.push_back(std::move(item));
  }
  if (!batch.empty()) {
    while (fills && static_cast<int64_t>(batch.size()) < size && call.runtime().spend(1)) batch.push_back(call[1]);
    batches.push_back(call.runtime().list(std::move(batch)));
  }
  return generator(call, std::move(batches));
}

// The first slices have an item more where they do not come out even; the others are filled up to that.
Value slice_filter(Call &call) {
  const std::vector<Value> items = self_items(call);
  const int64_t n_slices = call.integer(0, 0);
  if (n_slices == 0) return call.fail("expected at least one slice");
  if (n_slices < 0) return generator(call, {});
  const auto n_items = static_cast<int64_t>(items.size()), each = n_items / n_slices, n_longer = n_items % n_slices;
  const bool fills = call.has(1) && !call[1].is_none();
  std::vector<Value> slices;
  auto at = items.begin();
  for (int64_t i = 0; i < n_slices && call.runtime().spend(1); ++i) {
    const auto end = at + each + (i < n_longer ? 1 : 0);
    std::vector<Value> slice(at, end);
    at = end;
    if (fills && i >= n_longer) slice.push_back(call[1]);
    slices.push_back(call.runtime().list(std::move(slice)));
  }
  return generator(call, std::move(slices));
}

Value sum(Call &call) {
  Value total = call.has(1) ? call[1] : Value(int64_t{0});
  for (const Value &value : self_items(call)) {
    const bool follows = call.has(0) && !call[0].is_none();
    const Value part = follows ? follow(call.runtime(), value, call[0]) : value;
    total = arithmetic(call.runtime(), Arithmetic::Operator::kAdd, total, part);
    if (call.runtime().failed()) return {};
  }
  return total;
}

Value dictsort(Call &call) {
  const Dict *dict = call.self().dict();
  if (dict == nullptr) return call.fail("expected a mapping, found {}", type_name(call.self()));
  const std::string_view by = call[1].text() != nullptr ? call[1].text()->bytes() : "key";
  if (by != "key" && by != "value") return call.fail("'by': expected key or value, found {}", bonsai::quoted(by));
  std::vector<Keyed> keyed;
  for (const auto &[key, value] : dict->items) {
    keyed.push_back({sort_key(call, by == "key" ? key : value, {}, call.flag(0, false)),
                     call.runtime().list({key, value}, Sequence::Kind::kTuple)});
  }
  if (!check_comparable(call, keyed)) return {};
  stable_sort(call, keyed, call.flag(2, false));
  return call.runtime().list(values_of(std::move(keyed)));
}

Value items(Call &call) {
  if (call.self().is_undefined()) return generator(call, {});
  const Dict *dict = call.self().dict();
  if (dict == nullptr) return call.fail("expected a mapping, found {}", type_name(call.self()));
  std::vector<Value> pairs;
  for (const auto &[key, value] : dict->items)
    pairs.push_back(call.runtime().list({key, value}, Sequence::Kind::kTuple));
  return generator(call, std::move(pairs));
}

Value length(Call &call) {
  if (const auto length = length_of(call.self())) return *length;
  const bool is_generator = call.self().sequence() != nullptr;
  return call.fail("{} has no length{}", type_name(call.self()), is_generator ? "; '| list' gives it one" : "");
}

// The first or last element, without making the others.
Value end_of_text(const TracedText &text, bool last) {
  if (text.empty()) return Value::undefined("the sequence is empty");
  const std::string_view bytes = text.bytes();
  return last ? text.slice({moved_by(bytes, bytes.size(), -1), bytes.size()}) : text.slice({0, moved_by(bytes, 0, 1)});
}

Value first(Call &call) {
  if (call.self().text() != nullptr) return end_of_text(*call.self().text(), false);
  Sequence *sequence = call.self().sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::kGenerator) {
    if (sequence->n_taken < sequence->items.size()) return sequence->items[sequence->n_taken++];
    return Value::undefined("the sequence is empty");
  }
  const std::vector<Value> items = self_items(call);
  return items.empty() ? Value::undefined("the sequence is empty") : items.front();
}

Value last(Call &call) {
  if (call.self().text() != nullptr) return end_of_text(*call.self().text(), true);
  const Sequence *sequence = call.self().sequence();
  if (sequence != nullptr && sequence->kind == Sequence::Kind::kGenerator)
    return call.fail("a generator has no end; '| list' gives it one");
  const std::vector<Value> items = self_items(call);
  return items.empty() ? Value::undefined("the sequence is empty") : items.back();
}

Value join(Call &call) {
  const TracedText separator = to_text(call.runtime(), call[0]);
  TextBuilder out(call.runtime());
  bool begun = false;
  for (const Value &value : self_items(call)) {
    if (std::exchange(begun, true)) out.append(separator);
    const bool follows = call.has(1) && !call[1].is_none();
    out.append(to_text(call.runtime(), follows ? follow(call.runtime(), value, call[1]) : value));
    if (call.runtime().failed()) return {};
  }
  return out.take();
}

Value reverse(Call &call) {
  if (call.self().text() != nullptr)
    return slice(call.runtime(), call.self(), {.start = {}, .stop = {}, .step = int64_t{-1}});
  std::vector<Value> items = self_items(call);
  std::reverse(items.begin(), items.end());
  return generator(call, std::move(items));
}

Value fallback(Call &call) {
  const bool missing = call.self().is_undefined() || (call.flag(1, false) && !is_true(call.self()));
  if (!missing) return call.self();
  return call.has(0) ? call[0] : Value(TracedText());
}

Value attr(Call &call) {
  const TracedText *name = call.text(0);
  if (name == nullptr) return {};
  if (call.self().dict() != nullptr && find_dict_method(name->bytes()) == nullptr)
    return Value::undefined(fmt::format("a mapping has no attribute {}", bonsai::quoted(name->bytes())));
  return attribute(call.runtime(), call.self(), name->bytes());
}

// The first of the arguments that "*" took.
std::optional<std::string> take_name(Call &call, std::string_view what) {
  std::vector<Value> &arguments = call.rest().positional;
  if (arguments.empty() || arguments.front().text() == nullptr)
    return call.fail("expected the name of {}", what), std::nullopt;
  std::string name(arguments.front().text()->bytes());
  arguments.erase(arguments.begin());
  return name;
}

Value map_attribute(Call &call) {
  Value attribute, otherwise;
  for (auto &[name, value] : call.rest().named) {
    if (name != "attribute" && name != "default") return call.fail("has no parameter {}", bonsai::quoted(name));
    (name == "attribute" ? attribute : otherwise) = value;
  }
  std::vector<Value> mapped;
  for (const Value &value : self_items(call)) {
    mapped.push_back(follow(call.runtime(), value, attribute, otherwise));
    if (call.runtime().failed()) return {};
  }
  return generator(call, std::move(mapped));
}

// As of any list without elements; what is to be done with them is not looked at then.
bool holds_nothing(Call &call) { return !is_true(call.self()); }

Value map(Call &call) {
  if (holds_nothing(call)) return generator(call, {});
  if (call.rest().positional.empty() && !call.rest().named.empty()) return map_attribute(call);
  const auto name = take_name(call, "a filter");
  if (!name) return {};
  const Builtin *filter = find_filter(*name);
  if (filter == nullptr) return call.fail("there is no filter {}", bonsai::quoted(*name));
  std::vector<Value> mapped;
  for (const Value &value : self_items(call)) {
    mapped.push_back(call_builtin(call.runtime(), "filter", *filter, value, call.rest()));
    if (call.runtime().failed()) return {};
  }
  return generator(call, std::move(mapped));
}

// Those items for which a test (none: truth) of the item or one of its attributes says `wanted`.
Value choose(Call &call, bool by_attribute, bool wanted) {
  if (holds_nothing(call)) return generator(call, {});
  Value attribute;
  if (by_attribute) {
    if (call.rest().positional.empty()) return call.fail("expected the name of an attribute");
    attribute = call.rest().positional.front();
    call.rest().positional.erase(call.rest().positional.begin());
  }
  const Builtin *test = nullptr;
  if (!call.rest().positional.empty()) {
    const auto name = take_name(call, "a test");
    if (!name) return {};
    test = find_test(*name);
    if (test == nullptr) return call.fail("there is no test {}", bonsai::quoted(*name));
  }
  std::vector<Value> chosen;
  for (const Value &value : self_items(call)) {
    const Value subject = by_attribute ? follow(call.runtime(), value, attribute) : value;
    const Value result = test == nullptr ? subject : call_builtin(call.runtime(), "test", *test, subject, call.rest());
    if (call.runtime().failed()) return {};
    if (is_true(result) == wanted) chosen.push_back(value);
  }
  return generator(call, std::move(chosen));
}

constexpr Builtin kSequenceFilters[] = {
    {"length", "", 0, length},
    {"count", "", 0, length},
    {"first", "", 0, first},
    {"last", "", 0, last},
    {"join", "d attribute", 0, join},
    {"list", "", 0, [](Call &call) { return call.runtime().list(self_items(call)); }},
    {"items", "", 0, items},
    {"dictsort", "case_sensitive by reverse", 0, dictsort},
    {"sort", "reverse case_sensitive attribute", 0, sort},
    {"unique", "case_sensitive attribute", 0, unique},
    {"min", "case_sensitive attribute", 0, [](Call &call) { return extreme(call, false); }},
    {"max", "case_sensitive attribute", 0, [](Call &call) { return extreme(call, true); }},
    {"sum", "attribute start", 0, sum},
    {"groupby", "attribute default case_sensitive", 1, groupby},
    {"batch", "linecount fill_with", 1, batch},
    {"slice", "slices fill_with", 1, slice_filter},
    {"reverse", "", 0, reverse},
    {"default", "default_value boolean", 0, fallback},
    {"d", "default_value boolean", 0, fallback},
    {"attr", "name", 1, attr},
};

constexpr Builtin kChoiceFilters[] = {
    {"map", "*", 0, map},
    {"select", "*", 0, [](Call &call) { return choose(call, false, true); }},
    {"reject", "*", 0, [](Call &call) { return choose(call, false, false); }},
    {"selectattr", "*", 0, [](Call &call) { return choose(call, true, true); }},
    {"rejectattr", "*", 0, [](Call &call) { return choose(call, true, false); }},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return kSequenceFilters; }
std::span<const Builtin> choice_filters() { return kChoiceFilters; }

}  // namespace bonsai::jinja
