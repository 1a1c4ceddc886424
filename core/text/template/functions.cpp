// Functions that a template finds in place, and the methods of mappings and lists.
#include <locale.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <span>

#include "core/base/utf8.h"
#include "core/text/template/builtins.h"
#include "core/text/template/operators.h"
#include "core/text/template/print.h"

namespace bonsai::jinja {
namespace {

constexpr int64_t kMostRange = 100'000;  // as in Hugging Face's sandbox

Value range(Call &call) {
  const bool one = !call.has(1);
  const int64_t start = one ? 0 : call.integer(0, 0), stop = call.integer(one ? 0 : 1, 0), step = call.integer(2, 1);
  if (call.runtime().failed()) return {};
  if (step == 0) return call.fail("the step cannot be 0");
  // In double precision, which is far from exact at 2^63 and far from kMostRange there.
  const double n = (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step);
  if (n > kMostRange) return call.fail("more than {} numbers", kMostRange);
  std::vector<Value> numbers;
  for (int64_t at = start; step > 0 ? at < stop : at > stop;) {
    numbers.emplace_back(at);
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  const Value list = call.runtime().list(std::move(numbers), Sequence::Kind::kRange);
  if (Sequence *sequence = list.sequence()) {
    sequence->shown =
        step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step);
  }
  return list;
}

// Items of dict(a=1) and of dict({...}, b=2).
Value dict(Call &call) {
  DictItems items;
  if (call.has(0)) {
    if (call[0].dict() == nullptr) return call.fail("expected a mapping, found {}", type_name(call[0]));
    items = call[0].dict()->items;
  }
  for (auto &[name, value] : call.rest().named)
    set_key(call.runtime(), items, make_text(name, Origin::kTemplate), std::move(value));
  return call.runtime().dict(std::move(items));
}

Value raise_exception(Call &call) {
  // One line, whatever the template or a message's text puts into it.
  const std::string message(to_text(call.runtime(), call[0]).bytes());
  return call.runtime().fail("the template refuses the conversation: {}", bonsai::quoted(message));
}

// The names of days and months in English, as Python has them unless told: the program's own locale is the user's.
size_t write_date(std::span<char> buffer, const char *format, const std::tm &local) {
  const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  const size_t n = strftime_l(buffer.data(), buffer.size(), format, &local, english);
  freelocale(english);
  return n;
}

Value strftime_now(Call &call) {
  const TracedText *format = call.text(0);
  if (format == nullptr || !call.runtime().spend(100 + 8 * format->size())) return {};
  constexpr size_t kMostBytes = 4096;
  const std::time_t now = call.runtime().now();
  std::tm local{};
  localtime_r(&now, &local);
  // A mark in front tells an empty date from one that is too long.
  char buffer[kMostBytes];
  const std::string marked = fmt::format(".{}", format->bytes());
  const size_t n = write_date(buffer, marked.c_str(), local);
  if (n == 0) return call.fail("the date is longer than {} bytes", kMostBytes - 2);
  const std::string_view date(buffer + 1, n - 1);
  if (find_invalid_utf8(date) != std::string_view::npos) return call.fail("the date is not UTF-8");
  return make_text(date, Origin::kInput);
}

// What changes from call to call is the fields of a namespace.
Value stateful(Call &call, std::vector<std::pair<std::string_view, Value>> fields) {
  DictItems items;
  for (auto &[name, value] : fields) items.emplace_back(make_text(name, Origin::kTemplate), std::move(value));
  return call.runtime().make_namespace(call.runtime().dict(std::move(items)));
}

Value bound(const Builtin &builtin, Value self) {
  return std::make_shared<const Callable>(Callable{.builtin = &builtin, .self = std::move(self)});
}

Value field(Call &call, std::string_view name) {
  const Value *value = call.runtime().find(call.self().name_space()->fields, name);
  return value == nullptr ? Value() : *value;
}

void set_field(Call &call, std::string_view name, Value value) {
  call.runtime().set(call.self().name_space()->fields, name, std::move(value));
}

// Nothing at first, the separator from then on.
Value join_next(Call &call) {
  const bool begun = is_true(field(call, "used"));
  set_field(call, "used", true);
  return begun ? field(call, "sep") : Value(TracedText());
}

Value joiner(Call &call) {
  static constexpr Builtin kJoinNext = {"joiner", "", 0, join_next};
  const Value separator = call.has(0) ? call[0] : make_text(", ", Origin::kTemplate);
  return bound(kJoinNext, stateful(call, {{"sep", separator}, {"used", false}}));
}

// A template may have set the fields of a cycler to anything.
Value cycle_to(Call &call, int64_t step) {
  const Value values = field(call, "items");
  const Sequence *items = values.sequence();
  const auto position = field(call, "pos").as_integer();
  if (items == nullptr || items->items.empty() || !position || *position < 0)
    return call.fail("the cycler was changed");
  const auto n = static_cast<int64_t>(items->items.size());
  const int64_t at = *position % n, next = step == 0 ? 0 : (at + step) % n;
  set_field(call, "pos", next);
  set_field(call, "current", items->items[static_cast<size_t>(next)]);
  return step == 0 ? Value(None()) : items->items[static_cast<size_t>(at)];
}

Value cycler(Call &call) {
  static constexpr Builtin kNext = {"next", "", 0, [](Call &next) { return cycle_to(next, 1); }};
  static constexpr Builtin kReset = {"reset", "", 0, [](Call &reset) { return cycle_to(reset, 0); }};
  std::vector<Value> &items = call.rest().positional;
  if (items.empty()) return call.fail("expected at least one value");
  const Value first = items.front();
  const Value made = stateful(call, {{"items", call.runtime().list(std::move(items), Sequence::Kind::kTuple)},
                                     {"pos", int64_t{0}},
                                     {"current", first}});
  if (Namespace *state = made.name_space()) {
    call.runtime().set(state->fields, "next", bound(kNext, made));
    call.runtime().set(state->fields, "reset", bound(kReset, made));
  }
  return made;
}

constexpr Builtin kFunctions[] = {
    {"range", "start stop step", 1, range},
    {"dict", "mapping *", 0, dict},
    {"namespace", "mapping *", 0, [](Call &call) { return call.runtime().make_namespace(dict(call)); }},
    {"joiner", "sep", 0, joiner},
    {"cycler", "*", 0, cycler},
    {"raise_exception", "message", 1, raise_exception},
    {"strftime_now", "format", 1, strftime_now},
};

Value view(Call &call, Sequence::Kind kind) {
  std::vector<Value> values;
  for (const auto &[key, value] : call.self().dict()->items) {
    if (kind != Sequence::Kind::kItems) {
      values.push_back(kind == Sequence::Kind::kKeys ? key : value);
    } else {
      values.push_back(call.runtime().list({key, value}, Sequence::Kind::kTuple));
    }
  }
  return call.runtime().list(std::move(values), kind);
}

Value get(Call &call) {
  if (const Value *value = find_key(call.runtime(), call.self().dict()->items, call[0])) return *value;
  return call.has(1) ? call[1] : Value(None());
}

Value changes(Call &call) { return call.fail("would change its object, which chat templates cannot"); }

constexpr Builtin kDictMethods[] = {
    {"items", "", 0, [](Call &call) { return view(call, Sequence::Kind::kItems); }},
    {"keys", "", 0, [](Call &call) { return view(call, Sequence::Kind::kKeys); }},
    {"values", "", 0, [](Call &call) { return view(call, Sequence::Kind::kValues); }},
    {"get", "key default", 1, get},
    {"copy", "", 0, [](Call &call) { return call.self(); }},
    {"clear", "*", 0, changes},
    {"pop", "*", 0, changes},
    {"popitem", "*", 0, changes},
    {"setdefault", "*", 0, changes},
    {"update", "*", 0, changes},
};

Value list_index(Call &call) {
  const std::vector<Value> &items = call.self().sequence()->items;
  const auto [begin, end] = call.range(1, static_cast<int64_t>(items.size()));
  for (int64_t i = begin; i < end && !call.runtime().failed(); ++i)
    if (equal(call.runtime(), items[static_cast<size_t>(i)], call[0])) return i;
  return call.fail("the value is not in the list");
}

Value list_count(Call &call) {
  int64_t n = 0;
  for (const Value &item : call.self().sequence()->items) n += equal(call.runtime(), item, call[0]) ? 1 : 0;
  return n;
}

constexpr Builtin kListMethods[] = {
    {"index", "value start stop", 1, list_index},
    {"count", "value", 1, list_count},
    {"copy", "", 0, [](Call &call) { return call.self(); }},
    {"append", "*", 0, changes},
    {"clear", "*", 0, changes},
    {"extend", "*", 0, changes},
    {"insert", "*", 0, changes},
    {"pop", "*", 0, changes},
    {"remove", "*", 0, changes},
    {"reverse", "*", 0, changes},
    {"sort", "*", 0, changes},
};

}  // namespace

const Builtin *find_function(std::string_view name) { return find_in(kFunctions, name); }
const Builtin *find_dict_method(std::string_view name) { return find_in(kDictMethods, name); }
const Builtin *find_list_method(std::string_view name) { return find_in(kListMethods, name); }

}  // namespace bonsai::jinja
