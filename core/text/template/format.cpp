#include "core/text/template/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/utf8.h"
#include "core/text/template/characters.h"
#include "core/text/template/operators.h"
#include "core/text/template/print.h"
#include "core/text/template/text_operations.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

constexpr int kMostDigits = 1000;  // that a format may ask for behind the point
constexpr std::string_view kDigits = "0123456789", kWhole = "dxXob", kDecimal = "eEfFgG%";

bool is_one_of(char c, std::string_view set) { return c != '\0' && set.find(c) != set.npos; }

// How one value is to be written.
struct Spec {
  TracedText fill = TracedText(" ", Origin::kInput);
  char align = '\0';  // '<', '>', '^', or '=': filled between sign and digits; none: texts left, numbers right
  char sign = '-';    // of what is not negative: '+' or ' ' writes that
  bool is_alternate = false;
  bool groups = false;  // a comma between thousands
  int64_t width = 0;
  std::optional<int> precision = {};
  char type = '\0';
};

// The same text, read from the left.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return at_ == text_.size(); }
  size_t place() const { return at_; }
  char take() { return at_end() ? '\0' : text_[at_++]; }
  bool skip(char c) { return !at_end() && text_[at_] == c && (++at_, true); }
  // One of `set`, or '\0'.
  char take_any(std::string_view set) { return !at_end() && is_one_of(text_[at_], set) ? text_[at_++] : '\0'; }
  // Up to `c`, which is taken too; nullopt: it does not come.
  std::optional<std::string_view> take_until(char c) {
    const size_t end = text_.find(c, at_), begin = at_;
    if (end == text_.npos) return std::nullopt;
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }
  // nullopt: no digits, or more than any text is long.
  std::optional<int> number() {
    int number = 0;
    if (at_end() || !is_one_of(text_[at_], kDigits)) return std::nullopt;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error != std::errc()) return std::nullopt;
    at_ = static_cast<size_t>(end - text_.data());
    return number;
  }

 private:
  const std::string_view text_;
  size_t at_ = 0;
};

// A number without its sign.
struct Digits {
  bool is_negative = false;
  std::string prefix, text;
};

Digits whole_digits(int64_t number, const Spec &spec) {
  const auto magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  Digits digits{.is_negative = number < 0, .prefix = "", .text = ""};
  switch (spec.type) {
    case 'x':
      digits.text = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits.text = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits.text = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits.text = fmt::format("{:b}", magnitude);
      break;
    default:
      digits.text = std::to_string(magnitude);
      return digits;
  }
  if (spec.is_alternate) digits.prefix = {'0', spec.type};
  return digits;
}

Digits decimal_digits(double number, const Spec &spec) {
  const int precision = spec.precision.value_or(6);
  const double magnitude = std::abs(number);
  Digits digits{.is_negative = std::signbit(number) && !std::isnan(number), .prefix = "", .text = ""};
  switch (spec.type) {
    case 'e':
      digits.text = fmt::format("{:.{}e}", magnitude, precision);
      break;
    case 'E':
      digits.text = fmt::format("{:.{}E}", magnitude, precision);
      break;
    case 'g':
      digits.text = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
      break;
    case 'G':
      digits.text = fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
      break;
    case '%':
      digits.text = fmt::format("{:.{}f}%", magnitude * 100, precision);
      break;
    case 'F':
      digits.text = fmt::format("{:.{}F}", magnitude, precision);
      break;
    case 'f':
      digits.text = fmt::format("{:.{}f}", magnitude, precision);
      break;
    default:
      digits.text = print_real(magnitude);
  }
  return digits;
}

void group_thousands(std::string &digits) {
  const size_t n_whole = std::min(digits.find_first_not_of(kDigits), digits.size());
  for (size_t at = n_whole; at > 3;) digits.insert(at -= 3, 1, ',');
}

void append_number(Runtime &runtime, TextBuilder &out, Digits digits, const Spec &spec) {
  if (spec.groups) group_thousands(digits.text);
  std::string head = digits.is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += digits.prefix;
  if (spec.align == '=') {
    out.append(head, Origin::kInput);
    const int64_t width = spec.width - static_cast<int64_t>(head.size());
    out.append(padded(runtime, TracedText(digits.text, Origin::kInput), {width, Side::kRight, spec.fill}));
    return;
  }
  const Side side = spec.align == '<' ? Side::kLeft : spec.align == '^' ? Side::kMiddle : Side::kRight;
  out.append(padded(runtime, TracedText(head + digits.text, Origin::kInput), {spec.width, side, spec.fill}));
}

void append_text(Runtime &runtime, TextBuilder &out, TracedText text, const Spec &spec) {
  if (spec.precision) {
    text = text.slice({0, moved_by(text.bytes(), 0, *spec.precision)});
  }
  const Side side = spec.align == '>' ? Side::kRight : spec.align == '^' ? Side::kMiddle : Side::kLeft;
  out.append(padded(runtime, text, {spec.width, side, spec.fill}));
}

bool read_precision(Runtime &runtime, Reader &reader, Spec &spec, bool needs_digits) {
  if (!reader.skip('.')) return true;
  spec.precision = reader.number();
  if (!spec.precision && needs_digits) return runtime.fail("a format's '.' is followed by no number"), false;
  if (!spec.precision) spec.precision = 0;
  return true;
}

bool allows_digits(Runtime &runtime, const Spec &spec) {
  if (spec.precision.value_or(0) <= kMostDigits) return true;
  return runtime.fail("a format for numbers asks for more than {} digits", kMostDigits), false;
}

// ---------------------------------------------------------------------------------------------------------------------
// '%s'

class Places {
 public:
  Places(Runtime &runtime, const TracedText &format, const Value &values)
      : runtime_(runtime), format_(format), values_(values), reader_(format.bytes()), out_(runtime) {
    const Sequence *sequence = values.sequence();
    is_tuple_ = sequence != nullptr && sequence->kind == Sequence::Kind::kTuple;
  }

  Value fill() {
    for (size_t begin = 0; !runtime_.failed();) {
      if (!reader_.take_until('%')) {
        out_.append(format_, {begin, format_.size()});
        break;
      }
      out_.append(format_, {begin, reader_.place() - 1});
      begin = reader_.place();
      if (reader_.skip('%')) continue;  // the second one is text
      place();
      begin = reader_.place();
    }
    const bool may_be_left = values_.dict() != nullptr || (values_.sequence() != nullptr && !is_tuple_);
    const bool are_left = is_tuple_ ? n_taken_ < values_.sequence()->items.size() : n_taken_ == 0;
    if (are_left && !may_be_left) runtime_.fail("a format has fewer places than there are values");
    return runtime_.failed() ? Value() : Value(out_.take());
  }

 private:
  void place() {
    Value value;
    const bool is_named = reader_.skip('(');
    if (is_named) value = named();
    Spec spec = read_spec();
    if (runtime_.failed()) return;
    if (!is_named) value = next();
    if (runtime_.failed()) return;
    if (is_one_of(spec.type, "sr"))
      return append_text(runtime_, out_, spec.type == 's' ? to_text(runtime_, value) : to_repr(runtime_, value), spec);
    if (spec.type == 'c') return append_character(value, spec);
    append_number(value, spec);
  }

  Spec read_spec() {
    Spec spec;
    bool is_left = false, has_zeros = false;
    while (const char flag = reader_.take_any("#0- +")) {
      is_left |= flag == '-';
      has_zeros |= flag == '0';
      spec.is_alternate |= flag == '#';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    spec.width = reader_.number().value_or(0);
    read_precision(runtime_, reader_, spec, false);
    reader_.take_any("hlL");
    spec.type = reader_.take();
    if (is_one_of(spec.type, "iu")) spec.type = 'd';
    if (!is_one_of(spec.type, "sdxXoeEfFgGrc"))
      runtime_.fail("a format's '%' is followed by {}, which is no known type",
                    spec.type == '\0' ? "nothing" : bonsai::quoted(std::string_view(&spec.type, 1)));
    const bool is_number = !is_one_of(spec.type, "src");
    spec.align = is_left ? '<' : is_number && has_zeros ? '=' : '>';
    if (spec.align == '=') spec.fill = TracedText("0", Origin::kInput);
    return spec;
  }

  Value named() {
    const auto name = reader_.take_until(')');
    if (!name) return runtime_.fail("a format's '(' is never closed");
    if (values_.dict() == nullptr) return runtime_.fail("a format with names needs a mapping");
    ++n_taken_;
    if (const Value *value = find_key(runtime_, values_.dict()->items, *name)) return *value;
    return runtime_.fail("a format asks for {}, which is not there", bonsai::quoted(*name));
  }

  Value next() {
    const size_t n_values = is_tuple_ ? values_.sequence()->items.size() : 1;
    if (n_taken_ == n_values) return runtime_.fail("a format has more places than there are values");
    return is_tuple_ ? values_.sequence()->items[n_taken_++] : (++n_taken_, values_);
  }

  void append_character(const Value &value, const Spec &spec) {
    const auto code = value.as_integer();
    if (value.text() != nullptr && count_characters(value.text()->bytes()) == 1)
      return append_text(runtime_, out_, *value.text(), {.align = spec.align, .width = spec.width});
    const bool is_character = code && *code >= 0 && *code <= 0x10FFFF && !(*code >= 0xD800 && *code <= 0xDFFF);
    if (!is_character) return void(runtime_.fail("a format's '%c' needs a character"));
    std::string character;
    text::append_utf8(character, static_cast<char32_t>(*code));
    append_text(runtime_, out_, TracedText(character, Origin::kInput), {.align = spec.align, .width = spec.width});
  }

  void append_number(const Value &value, const Spec &spec) {
    auto whole = value.as_integer();
    const auto real = value.as_real();
    if (!real || (!whole && is_one_of(spec.type, "xXo")))
      return void(runtime_.fail("a format's '%{}' needs a number, found {}", spec.type, type_name(value)));
    if (!allows_digits(runtime_, spec)) return;
    const bool has_decimals = !is_one_of(spec.type, kWhole);
    if (has_decimals && spec.is_alternate)
      return void(runtime_.fail("a format's '#' is not supported for '%{}'", spec.type));
    if (has_decimals && !runtime_.spend_on_digits(static_cast<uint64_t>(spec.precision.value_or(0)))) return;
    if (has_decimals) return jinja::append_number(runtime_, out_, decimal_digits(*real, spec), spec);
    if (!whole && !(std::abs(*real) < 9.2e18)) return void(runtime_.fail("an integer exceeds 64 bits"));
    Digits digits = whole_digits(whole ? *whole : static_cast<int64_t>(*real), spec);
    const auto least = static_cast<size_t>(spec.precision.value_or(0));
    if (digits.text.size() < least) digits.text.insert(0, least - digits.text.size(), '0');
    jinja::append_number(runtime_, out_, std::move(digits), spec);
  }

  Runtime &runtime_;
  const TracedText &format_;
  const Value &values_;
  Reader reader_;
  TextBuilder out_;
  bool is_tuple_ = false;
  size_t n_taken_ = 0;
};

// ---------------------------------------------------------------------------------------------------------------------
// '{}'

class Fields {
 public:
  Fields(Runtime &runtime, const TracedText &format, const CallArguments &values)
      : runtime_(runtime), format_(format), values_(values), out_(runtime) {}

  Value fill() {
    const std::string_view text = format_.bytes();
    for (size_t begin = 0; !runtime_.failed();) {
      const size_t brace = std::min(text.find_first_of("{}", begin), text.size());
      out_.append(format_, {begin, brace});
      if (brace == text.size()) break;
      if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
        out_.append(format_, {brace, brace + 1});
        begin = brace + 2;
        continue;
      }
      const size_t end = text.find_first_of("{}", brace + 1);
      if (text[brace] == '}' || end == text.npos) return runtime_.fail("a format has a single '{}'", text[brace]);
      if (text[end] == '{') return runtime_.fail("a format with a field within a field is not supported");
      field(text.substr(brace + 1, end - brace - 1));
      begin = end + 1;
    }
    return runtime_.failed() ? Value() : Value(out_.take());
  }

 private:
  // name!conversion:spec, a part of the format.
  void field(std::string_view text) {
    const size_t end = std::min(text.find_first_of("!:"), text.size());
    Value value = look_up(text.substr(0, end));
    text.remove_prefix(end);
    if (text.starts_with('!')) {
      const bool is_known = text.starts_with("!s") || text.starts_with("!r");
      if (!is_known || (text.size() > 2 && text[2] != ':'))
        return void(runtime_.fail("a format's conversion is 's' or 'r', found {}", bonsai::quoted(text.substr(1))));
      value = text[1] == 's' ? to_text(runtime_, value) : to_repr(runtime_, value);
      text.remove_prefix(2);
    }
    if (text.size() <= 1) return out_.append(to_text(runtime_, value));
    text.remove_prefix(1);
    const Spec spec = read_spec(text, value.text() == nullptr);
    if (!runtime_.failed()) append(value, spec);
  }

  // "0.name[key]", where the first may be missing or a name.
  Value look_up(std::string_view path) {
    const size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    for (path.remove_prefix(end); !path.empty() && !runtime_.failed();) {
      const bool is_item = path.front() == '[';
      const size_t stop = is_item ? path.find(']') : std::min(path.find_first_of(".[", 1), path.size());
      if (stop == path.npos) return runtime_.fail("a format's '[' is never closed");
      const std::string_view name = path.substr(1, stop - 1);
      if (name.empty()) return runtime_.fail("a format's field has an empty name");
      const auto index = index_of(name);
      value = !is_item ? attribute(runtime_, value, name)
              : index  ? item(runtime_, value, *index)
                       : item(runtime_, value, make_text(name, Origin::kTemplate));
      path.remove_prefix(stop + (is_item ? 1 : 0));
      if (!path.empty() && !is_one_of(path.front(), ".["))
        return runtime_.fail("a format's ']' is followed by {}", bonsai::quoted(path));
    }
    return value;
  }

  static std::optional<int64_t> index_of(std::string_view name) {
    int64_t index = 0;
    const bool is_digits = !name.empty() && name.find_first_not_of(kDigits) == name.npos;
    if (!is_digits || std::from_chars(name.data(), name.data() + name.size(), index).ec != std::errc())
      return std::nullopt;
    return index;
  }

  Value argument(std::string_view name) {
    const auto index = index_of(name);
    if (!name.empty() && !index) {
      for (const auto &[given, value] : values_.named)
        if (runtime_.spend(1) && runtime_.same(given, name)) return value;
      return runtime_.fail("a format asks for {}, which is not there", bonsai::quoted(name));
    }
    if (name.empty() ? is_manual_ : n_counted_ > 0)
      return runtime_.fail("a format's fields are numbered either all or not at all");
    is_manual_ = is_manual_ || index.has_value();
    const size_t place = index ? static_cast<size_t>(*index) : n_counted_++;
    if (place < values_.positional.size()) return values_.positional[place];
    return runtime_.fail("a format asks for value {}, of {}", place, values_.positional.size());
  }

  Spec read_spec(std::string_view text, bool is_number) {
    Spec spec;
    const auto place = static_cast<size_t>(text.data() - format_.bytes().data());
    const size_t fill = moved_by(text, 0, 1);
    size_t at = 0;
    if (fill < text.size() && is_one_of(text[fill], "<>^=")) {
      spec.fill = format_.slice({place, place + fill});
      spec.align = text[fill];
      at = fill + 1;
    }
    Reader reader(text.substr(at));
    const bool has_fill = at > 0;
    if (!has_fill) spec.align = reader.take_any("<>^=");
    const char sign = reader.take_any("+- ");
    spec.sign = sign == '\0' ? '-' : sign;
    spec.is_alternate = reader.skip('#');
    if (reader.skip('0') && !has_fill) {
      spec.fill = TracedText("0", Origin::kInput);
      if (spec.align == '\0' && is_number) spec.align = '=';
    }
    spec.width = reader.number().value_or(0);
    spec.groups = reader.skip(',');
    if (!read_precision(runtime_, reader, spec, true)) return spec;
    spec.type = reader.take();
    const bool is_known = spec.type == '\0' || is_one_of(spec.type, "s") || is_one_of(spec.type, kWhole) ||
                          is_one_of(spec.type, kDecimal);
    if (!is_known || !reader.at_end()) runtime_.fail("the format {} is not supported", bonsai::quoted(text));
    if (!is_number && (sign != '\0' || spec.is_alternate || spec.groups || spec.align == '='))
      runtime_.fail("the format {} is not one for strings", bonsai::quoted(text));
    return spec;
  }

  void append(const Value &value, const Spec &spec) {
    if (value.text() != nullptr && (spec.type == '\0' || spec.type == 's'))
      return append_text(runtime_, out_, *value.text(), spec);
    const auto whole = value.as_integer();
    const auto real = value.as_real();
    const bool wants_whole = is_one_of(spec.type, kWhole) || (spec.type == '\0' && whole);
    if (!real || spec.type == 's' || (wants_whole && !whole))
      return void(runtime_.fail("the format {} is not one for {}",
                                spec.type == '\0' ? "with a width" : bonsai::quoted(std::string_view(&spec.type, 1)),
                                type_name(value)));
    const bool zero_filled = spec.align == '=' && spec.fill.bytes() == "0";
    const bool is_supported = wants_whole
                                  ? !spec.precision && (!spec.groups || is_one_of(spec.type, "d") || spec.type == '\0')
                                  : !spec.is_alternate && (spec.type != '\0' || !spec.precision);
    if (!allows_digits(runtime_, spec)) return;
    if (!is_supported || (spec.groups && zero_filled))
      return void(runtime_.fail("a format of this kind is not supported for {}", type_name(value)));
    if (!wants_whole && !runtime_.spend_on_digits(static_cast<uint64_t>(spec.precision.value_or(0)))) return;
    append_number(runtime_, out_, wants_whole ? whole_digits(*whole, spec) : decimal_digits(*real, spec), spec);
  }

  Runtime &runtime_;
  const TracedText &format_;
  const CallArguments &values_;
  TextBuilder out_;
  bool is_manual_ = false;
  size_t n_counted_ = 0;
};

}  // namespace

Value fill_places(Runtime &runtime, const TracedText &format, const Value &values) {
  return Places(runtime, format, values).fill();
}

Value fill_fields(Runtime &runtime, const TracedText &format, const CallArguments &values) {
  return Fields(runtime, format, values).fill();
}

}  // namespace bonsai::jinja
