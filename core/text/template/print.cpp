#include "core/text/template/print.h"

#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

// str.isprintable(): no control or format characters, nothing unassigned, no space but the common one.
bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string escape_unprintable(char32_t c) {
  const auto number = static_cast<uint32_t>(c);
  if (number < 0x100) return fmt::format("\\x{:02x}", number);
  if (number < 0x10000) return fmt::format("\\u{:04x}", number);
  return fmt::format("\\U{:08x}", number);
}

std::string repr(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos, has_double = text.find('"') != text.npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = text::next_code_point(text, at);
    if (c == '\\' || c == static_cast<char32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      out += text.substr(begin, at - begin);
    } else {
      out += escape_unprintable(c);
    }
  }
  return out + quote;
}

// A single value that holds no others, as repr() writes it; empty for the others.
std::string repr_of_simple(const Value &value) {
  if (value.is_undefined()) return "Undefined";
  if (value.is_none()) return "None";
  if (const bool *flag = value.boolean()) return *flag ? "True" : "False";
  if (const int64_t *number = value.integer()) return std::to_string(*number);
  if (const double *number = value.real()) return print_real(*number);
  if (const TracedText *text = value.text()) return repr(text->bytes());
  return {};
}

struct Brackets {
  std::string_view open, close;
};

Brackets brackets(const Sequence &sequence) {
  switch (sequence.kind) {
    case Sequence::Kind::kTuple:
      return {"(", sequence.items.size() == 1 ? ",)" : ")"};
    case Sequence::Kind::kKeys:
      return {"dict_keys([", "])"};
    case Sequence::Kind::kValues:
      return {"dict_values([", "])"};
    case Sequence::Kind::kItems:
      return {"dict_items([", "])"};
    default:
      return {"[", "]"};
  }
}

class ReprWriter {
 public:
  explicit ReprWriter(Runtime &runtime) : runtime_(runtime), out_(runtime) {}

  void write(const Value &value) {
    if (runtime_.failed()) return;
    if (const std::string simple = repr_of_simple(value); !simple.empty()) return put(simple);
    if (const Dict *dict = value.dict()) return write_dict(*dict);
    const Sequence *sequence = value.sequence();
    if (sequence != nullptr && sequence->kind == Sequence::Kind::kRange) return put(sequence->shown);
    if (sequence != nullptr && sequence->kind != Sequence::Kind::kGenerator) return write_sequence(*sequence);
    const bool generator = sequence != nullptr;
    runtime_.fail("a {} cannot be printed{}", type_name(value), generator ? "; '| list' makes it a list" : "");
  }

  TracedText take() { return out_.take(); }

 private:
  void put(std::string_view text) { out_.append(text, Origin::kInput); }

  void write_sequence(const Sequence &sequence) {
    const Brackets around = brackets(sequence);
    put(around.open);
    for (size_t i = 0; i < sequence.items.size() && !runtime_.failed(); ++i) {
      if (i > 0) put(", ");
      write(sequence.items[i]);
    }
    put(around.close);
  }

  void write_dict(const Dict &dict) {
    put("{");
    for (size_t i = 0; i < dict.items.size() && !runtime_.failed(); ++i) {
      if (i > 0) put(", ");
      write(dict.items[i].first);
      put(": ");
      write(dict.items[i].second);
    }
    put("}");
  }

  Runtime &runtime_;
  TextBuilder out_;
};

}  // namespace

TracedText to_text(Runtime &runtime, const Value &value) {
  if (const TracedText *text = value.text()) return *text;
  if (value.is_undefined()) return {};
  return to_repr(runtime, value);
}

TracedText to_repr(Runtime &runtime, const Value &value) {
  ReprWriter writer(runtime);
  writer.write(value);
  return writer.take();
}

std::string print_real(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific).ptr;
  const std::string scientific(buffer, end);  // "-1.25e+20"
  const size_t e = scientific.find('e');
  const int exponent = std::atoi(scientific.c_str() + e + 1);
  if (exponent < -4 || exponent >= 16) return scientific;
  std::string digits = scientific.substr(0, e);
  const std::string sign = digits[0] == '-' ? "-" : "";
  digits.erase(0, sign.size());
  if (digits.size() > 1) digits.erase(1, 1);  // the dot
  if (exponent < 0) return fmt::format("{}0.{}{}", sign, std::string(static_cast<size_t>(-exponent) - 1, '0'), digits);
  const size_t n_whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= n_whole) return fmt::format("{}{}{}.0", sign, digits, std::string(n_whole - digits.size(), '0'));
  return fmt::format("{}{}.{}", sign, digits.substr(0, n_whole), digits.substr(n_whole));
}

}  // namespace bonsai::jinja
