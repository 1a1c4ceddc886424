#include "core/text/template/builtins.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "core/text/template/print.h"

namespace bonsai::jinja {
namespace {

std::vector<std::string_view> split_names(std::string_view names) {
  std::vector<std::string_view> out;
  while (!names.empty()) {
    const size_t space = std::min(names.find(' '), names.size());
    out.push_back(names.substr(0, space));
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return out;
}

}  // namespace

Call::Call(Runtime &runtime, std::string_view what, const Builtin &builtin, const Value &self, CallArguments arguments)
    : runtime_(runtime), what_(what), builtin_(builtin), self_(self) {
  bind(std::move(arguments));
}

bool Call::bind(CallArguments arguments) {
  std::vector<std::string_view> names = split_names(builtin_.parameters);
  const bool takes_more = !names.empty() && names.back() == "*";
  if (takes_more) names.pop_back();
  values_.resize(names.size());
  given_.resize(names.size());
  const size_t n = std::min(names.size(), arguments.positional.size());
  for (size_t i = 0; i < n; ++i) {
    values_[i] = std::move(arguments.positional[i]);
    given_[i] = true;
  }
  if (takes_more) {
    rest_.positional.assign(std::make_move_iterator(arguments.positional.begin() + static_cast<ptrdiff_t>(n)),
                            std::make_move_iterator(arguments.positional.end()));
    arguments.positional.resize(n);
  } else if (arguments.positional.size() > n) {
    fail("takes at most {} arguments, found {}", n, arguments.positional.size());
  }
  for (auto &[name, value] : arguments.named) {
    if (!runtime_.spend(1 + name.size() / 16)) return false;
    const auto place = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (place == names.size() && takes_more) {
      rest_.named.emplace_back(std::move(name), std::move(value));
    } else if (place == names.size()) {
      fail("has no parameter {}", bonsai::quoted(name));
    } else if (given_[place]) {
      fail("the argument {} is given twice", bonsai::quoted(name));
    } else {
      values_[place] = std::move(value);
      given_[place] = true;
    }
  }
  for (size_t i = 0; i < builtin_.n_required; ++i)
    if (!given_[i]) fail("the argument {} is missing", bonsai::quoted(names[i]));
  return !runtime_.failed();
}

int64_t Call::integer(size_t parameter, int64_t fallback) {
  if (!has(parameter) || values_[parameter].is_none()) return fallback;
  const auto number = values_[parameter].as_integer();
  if (!number) fail("expected an integer, found {}", type_name(values_[parameter]));
  return number.value_or(fallback);
}

std::pair<int64_t, int64_t> Call::range(size_t parameter, int64_t size) {
  const auto from_start = [size](int64_t at) { return at < 0 ? std::max<int64_t>(at + size, 0) : at; };
  const int64_t begin = from_start(integer(parameter, 0));
  return {begin, std::min(from_start(integer(parameter + 1, size)), size)};
}

const TracedText *Call::text(size_t parameter) {
  const TracedText *text = values_[parameter].text();
  if (text == nullptr) fail("expected a string, found {}", type_name(values_[parameter]));
  return text;
}

const TracedText *Call::self_text() {
  if (self_.is_undefined()) return runtime_.fail_undefined(self_), nullptr;
  if (self_.text() == nullptr) fail("expected a string, found {}", type_name(self_));
  return self_.text();
}

TracedText Call::printed_self() { return to_text(runtime_, self_); }

Value call_builtin(Runtime &runtime, std::string_view what, const Builtin &builtin, const Value &self,
                   CallArguments arguments) {
  Call call(runtime, what, builtin, self, std::move(arguments));
  return call.spend_on_texts() ? builtin.function(call) : Value();
}

// Whatever it does with texts, it may look at all of them.
bool Call::spend_on_texts() {
  uint64_t of_arguments = 0;
  for (const Value &value : values_)
    if (value.text() != nullptr) of_arguments += value.text()->size();
  const TracedText *text = self_.text();
  if (text != nullptr) runtime_.spend(text->template_ranges().size());
  runtime_.spend_on_search(text == nullptr ? 0 : text->size(), of_arguments);
  return !runtime_.failed();
}

const Builtin *find_in(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [name](const Builtin &b) { return b.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const Builtin *find_filter(std::string_view name) {
  for (const auto table : {text_filters(), number_filters(), sequence_filters(), choice_filters()})
    if (const Builtin *found = find_in(table, name)) return found;
  return nullptr;
}

}  // namespace bonsai::jinja
