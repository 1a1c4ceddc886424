// What a template can call by name: filters, tests, methods and functions, each in a table.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/template/runtime.h"

namespace bonsai::jinja {

class Call;

struct Builtin {
  std::string_view name;
  // Names of the parameters, as Python's, with a space between two. "a b" may be given as (1, 2), (1, b=2), (b=2, a=1).
  // A last "*" takes any further arguments.
  std::string_view parameters;
  size_t n_required;
  Value (*function)(Call &call);
};

// Arguments sorted by parameter.
class Call {
 public:
  // Errors: too many or too few arguments, names that are no parameters. `what`: "filter", "method", for messages.
  Call(Runtime &runtime, std::string_view what, const Builtin &builtin, const Value &self, CallArguments arguments);

  Runtime &runtime() { return runtime_; }
  // What a filter or test is applied to, or the object that a method belongs to.
  const Value &self() const { return self_; }
  // By the order of parameters; undefined: not given.
  const Value &operator[](size_t parameter) const { return values_[parameter]; }
  bool has(size_t parameter) const { return given_[parameter]; }
  // What "*" took.
  CallArguments &rest() { return rest_; }

  // Errors name the builtin.
  template <class... Args>
  Value fail(fmt::format_string<Args...> format, Args &&...args) {
    return runtime_.fail("{} '{}': {}", what_, builtin_.name, fmt::format(format, std::forward<Args>(args)...));
  }

  // Readers: what is given or the fallback. A value of another type is an error, and the fallback.
  int64_t integer(size_t parameter, int64_t fallback);
  // Two arguments from `parameter` on as Python's index() has them, the first and behind the last of `size` elements:
  // negative ones count from the end, and none lies ahead of the first or, of the latter, behind the last.
  std::pair<int64_t, int64_t> range(size_t parameter, int64_t size);
  bool flag(size_t parameter, bool fallback) const { return has(parameter) ? is_true(values_[parameter]) : fallback; }
  // nullptr, and an error, where the value (or self) is no text. Undefined and what prints are not texts here.
  const TracedText *text(size_t parameter);
  const TracedText *self_text();
  // Self as str() would print it: filters such as trim take anything.
  TracedText printed_self();

  // False, and an error, if looking at self and arguments takes more steps than are left.
  bool spend_on_texts();

 private:
  bool bind(CallArguments arguments);

  Runtime &runtime_;
  std::string_view what_;
  const Builtin &builtin_;
  const Value self_;
  std::vector<Value> values_;
  std::vector<bool> given_;
  CallArguments rest_;
};

// Runs `builtin` unless its arguments are wrong.
Value call_builtin(Runtime &runtime, std::string_view what, const Builtin &builtin, const Value &self,
                   CallArguments arguments);

// Null: there is none of that name.
const Builtin *find_filter(std::string_view name);
const Builtin *find_test(std::string_view name);
const Builtin *find_function(std::string_view name);
const Builtin *find_text_method(std::string_view name);
const Builtin *find_dict_method(std::string_view name);
const Builtin *find_list_method(std::string_view name);

// The tables of filters.
std::span<const Builtin> text_filters();
std::span<const Builtin> number_filters();
std::span<const Builtin> sequence_filters();
std::span<const Builtin> choice_filters();  // map, select and their kin, which call others by name

const Builtin *find_in(std::span<const Builtin> table, std::string_view name);

}  // namespace bonsai::jinja
