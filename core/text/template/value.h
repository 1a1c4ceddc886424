// What expressions of a template evaluate to: Python's values, as far as templates can tell.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/text/template/traced_text.h"

namespace bonsai::jinja {

struct Builtin;
struct Macro;
struct Scope;
struct Sequence;
struct Dict;
struct Namespace;
struct Callable;
struct Loop;

// A name or item that does not exist. Prints as nothing; most other uses are errors that quote `why`.
struct Undefined {
  std::shared_ptr<const std::string> why;  // "'x' is undefined"; null: no more is known
};
struct None {};

// Cheap to copy: everything but numbers is shared. Texts, sequences and dicts never change once made, as in Hugging
// Face's sandbox.
class Value {
 public:
  using Any = std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const TracedText>,
                           std::shared_ptr<Sequence>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                           std::shared_ptr<const Callable>, std::shared_ptr<const Loop>>;

  Value() = default;  // undefined
  Value(None none) : any_(none) {}
  Value(bool value) : any_(value) {}
  Value(int64_t value) : any_(value) {}
  Value(double value) : any_(value) {}
  Value(TracedText text) : any_(std::make_shared<const TracedText>(std::move(text))) {}
  template <class T>
  Value(std::shared_ptr<T> object) : any_(std::move(object)) {}
  Value(const char *) = delete;  // it would be a bool
  static Value undefined(std::string why);

  const Any &any() const { return any_; }
  bool is_undefined() const { return std::holds_alternative<Undefined>(any_); }
  bool is_none() const { return std::holds_alternative<None>(any_); }
  const bool *boolean() const { return std::get_if<bool>(&any_); }
  const int64_t *integer() const { return std::get_if<int64_t>(&any_); }
  const double *real() const { return std::get_if<double>(&any_); }
  // Null where the value is something else.
  const TracedText *text() const { return object<const TracedText>(); }
  Sequence *sequence() const { return object<Sequence>(); }
  const Dict *dict() const { return object<const Dict>(); }
  Namespace *name_space() const { return object<Namespace>(); }
  const Callable *callable() const { return object<const Callable>(); }
  const Loop *loop() const { return object<const Loop>(); }

  // A boolean counts as 0 or 1, as in Python; nullopt: not an integer.
  std::optional<int64_t> as_integer() const;
  std::optional<double> as_real() const;  // of integers too

 private:
  template <class T>
  T *object() const {
    const auto *pointer = std::get_if<std::shared_ptr<T>>(&any_);
    return pointer == nullptr ? nullptr : pointer->get();
  }

  Any any_;
};

// What it takes to walk over a value: a bound for recursion and for time. A value that holds another twice counts it
// twice, as a walk does.
struct Extent {
  uint32_t depth = 0;  // containers within containers
  uint64_t steps = 1;  // values, and every 16 bytes of text

  void add(const Extent &item);  // saturates
};

struct Sequence {
  // Generators (what map, select and their kin give) can be walked over once, have no length and are always true.
  enum class Kind : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

  Kind kind = Kind::kList;
  std::vector<Value> items;
  Extent extent = {};
  std::string shown = {};  // of a range: how it prints
  size_t n_taken = 0;      // of a generator: items that were walked over
  bool is_group = false;   // a tuple that groupby made: its two items are called `grouper` and `list`, too

  // Whether it has a length and items that can be asked for by number.
  bool is_indexed() const { return kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kRange; }
};

// Keys are texts, numbers or none. In order of insertion; small, as chat templates' are: a lookup walks over all of it.
using DictItems = std::vector<std::pair<Value, Value>>;
struct Dict {
  DictItems items;
  Extent extent = {};
};

// Fields or variables.
using NamedValues = std::vector<std::pair<std::string, Value>>;

// The one thing that `set` can change from within a loop.
struct Namespace {
  NamedValues fields;
};

// A function of the language, a method with the object that it belongs to (which is no callable itself), or a macro
// with the scope that it sees.
struct Callable {
  const Builtin *builtin = nullptr;
  Value self = {};
  const Macro *macro = nullptr;
  Scope *scope = nullptr;
};

// `loop` in the body of a `for`.
struct Loop {
  size_t index0 = 0, length = 0;
  Value previous, next;  // undefined at the ends
  uint32_t depth = 0;    // more than that of either
  // What changed() was told last; of all turns, and gone after them, since it may hold a loop.
  std::weak_ptr<Value> told;
};

// Python's type names would puzzle a template's author less than ours, but ours are English: "string", "list".
std::string_view type_name(const Value &value);

bool is_true(const Value &value);

// Methods and loops hold values that no walk enters: these count for the depth alone, since what is deep is also
// destroyed by recursion. Namespaces do not, as each rendering holds all of its own until its end.
Extent extent_of(const Value &value);

inline Value make_text(std::string_view bytes, Origin origin) { return TracedText(std::string(bytes), origin); }

}  // namespace bonsai::jinja
