#include "core/text/template/runtime.h"

#include <utility>

namespace bonsai::jinja {

// A namespace may hold itself, directly or through others: empty ones cannot.
Runtime::~Runtime() {
  for (const auto &name_space : namespaces_) name_space->fields.clear();
}

void Runtime::set_error(std::string message) { error_ = fmt::format("line {}: {}", line_, message); }

bool Runtime::spend(uint64_t steps) {
  if (failed()) return false;
  if (steps <= limits_.steps - spent_) {
    spent_ += steps;
    return true;
  }
  fail("the template takes more than {} steps", limits_.steps);
  return false;
}

bool Runtime::allows_text(uint64_t bytes) {
  if (bytes <= limits_.text_bytes) return true;
  fail("a text of more than {} bytes", limits_.text_bytes);
  return false;
}

bool Runtime::admits(const Extent &extent) {
  if (extent.depth > limits_.value_depth) {
    fail("lists and mappings are nested deeper than {}", limits_.value_depth);
    return false;
  }
  if (extent.steps > limits_.steps) {
    fail("a list or mapping has more than {} elements in all", limits_.steps);
    return false;
  }
  return true;
}

Value Runtime::list(std::vector<Value> items, Sequence::Kind kind) {
  Sequence sequence{.kind = kind, .items = std::move(items)};
  for (const Value &item : sequence.items) sequence.extent.add(extent_of(item));
  if (!spend(1 + sequence.items.size()) || !admits(sequence.extent)) return {};
  return std::make_shared<Sequence>(std::move(sequence));
}

Value Runtime::dict(DictItems items) {
  Dict dict{.items = std::move(items)};
  for (const auto &[key, value] : dict.items) {
    dict.extent.add(extent_of(key));
    dict.extent.add(extent_of(value));
  }
  if (!spend(1 + dict.items.size()) || !admits(dict.extent)) return {};
  return std::make_shared<const Dict>(std::move(dict));
}

const Value *Runtime::find(const NamedValues &values, std::string_view name) {
  if (!spend_on_items(values.size())) return nullptr;
  for (const auto &[other, value] : values)
    if (same(other, name)) return &value;
  return nullptr;
}

void Runtime::set(NamedValues &values, std::string_view name, Value value) {
  if (!spend_on_items(values.size() + name.size())) return;
  for (auto &[other, old] : values)
    if (same(other, name)) return void(old = std::move(value));
  values.emplace_back(name, std::move(value));
}

Value Runtime::make_namespace(const Value &mapping) {
  const Dict *dict = mapping.dict();
  if (dict == nullptr || !spend_on_kept()) return {};
  auto made = std::make_shared<Namespace>();
  for (const auto &[key, value] : dict->items) {
    if (key.text() == nullptr) return fail("a namespace's fields are named by strings, found {}", type_name(key));
    set(made->fields, key.text()->bytes(), value);
    if (failed()) return {};
  }
  namespaces_.push_back(made);
  return made;
}

Value Runtime::fail_undefined(const Value &value) {
  const auto *undefined = std::get_if<Undefined>(&value.any());
  if (undefined == nullptr || undefined->why == nullptr) return fail("a value is undefined");
  return fail("{}", *undefined->why);
}

}  // namespace bonsai::jinja
