// json.dumps(), as far as templates reach it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/text/template/operators.h"
#include "core/text/template/print.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

void append_u_escape(std::string &out, uint32_t unit) { out += fmt::format("\\u{:04x}", unit); }

void append_ascii(std::string &out, char32_t c) {
  if (c < 0x10000) return append_u_escape(out, c);
  append_u_escape(out, 0xD800 + ((c - 0x10000) >> 10));
  append_u_escape(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

std::string json_string(std::string_view text, bool ascii_only) {
  constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = text::next_code_point(text, at);
    const size_t escape = c < 0x80 ? kEscaped.find(static_cast<char>(c)) : kEscaped.npos;
    if (escape != kEscaped.npos) {
      out += '\\';
      out += kLetters[escape];
    } else if (c < 0x20) {
      append_u_escape(out, c);
    } else if (c >= 0x7F && ascii_only) {
      append_ascii(out, c);
    } else {
      out += text.substr(begin, at - begin);
    }
  }
  return out + '"';
}

std::string json_real(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
  return print_real(number);
}

class JsonWriter {
 public:
  JsonWriter(Runtime &runtime, const JsonStyle &style) : runtime_(runtime), style_(style), out_(runtime) {}

  void write(const Value &value) {
    if (runtime_.failed()) return;
    if (const std::string simple = simple_value(value); !simple.empty()) return put(simple);
    if (const Dict *dict = value.dict()) return write_dict(*dict);
    const Sequence *sequence = value.sequence();
    const bool is_array =
        sequence != nullptr && (sequence->kind == Sequence::Kind::kList || sequence->kind == Sequence::Kind::kTuple);
    if (is_array) return write_array(*sequence);
    if (value.is_undefined()) return void(runtime_.fail_undefined(value));
    runtime_.fail("a {} cannot be written as JSON", type_name(value));
  }

  TracedText take() { return out_.take(); }

 private:
  void put(std::string_view text) { out_.append(text, Origin::kInput); }

  // Empty for what holds other values, and for what JSON does not know.
  std::string simple_value(const Value &value) const {
    if (value.is_none()) return "null";
    if (const bool *flag = value.boolean()) return *flag ? "true" : "false";
    if (const int64_t *number = value.integer()) return std::to_string(*number);
    if (const double *number = value.real()) return json_real(*number);
    if (const TracedText *text = value.text()) return json_string(text->bytes(), style_.ascii_only);
    return {};
  }

  void new_line() {
    if (!style_.indent) return;
    put("\n");
    for (uint32_t i = 0; i < level_; ++i) put(*style_.indent);
  }

  void write_array(const Sequence &sequence) {
    if (sequence.items.empty()) return put("[]");
    put("[");
    ++level_;
    for (size_t i = 0; i < sequence.items.size() && !runtime_.failed(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      write(sequence.items[i]);
    }
    --level_;
    new_line();
    put("]");
  }

  void write_key(const Value &key) {
    if (key.text() != nullptr) return write(key);
    const std::string simple = simple_value(key);
    if (simple.empty()) return void(runtime_.fail("a {} cannot be a key in JSON", type_name(key)));
    put(fmt::format("\"{}\"", simple));
  }

  void write_dict(const Dict &dict) {
    if (dict.items.empty()) return put("{}");
    std::vector<const std::pair<Value, Value> *> items;
    for (const auto &item : dict.items) items.push_back(&item);
    if (style_.sort_keys) sort(items);
    put("{");
    ++level_;
    for (size_t i = 0; i < items.size() && !runtime_.failed(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line();
      write_key(items[i]->first);
      put(style_.key_separator);
      write(items[i]->second);
    }
    --level_;
    new_line();
    put("}");
  }

  void sort(std::vector<const std::pair<Value, Value> *> &items) {
    for (const auto *item : items) {
      if (!order(runtime_, item->first, items.front()->first))
        return void(runtime_.fail("keys of different types cannot be sorted"));
    }
    std::stable_sort(items.begin(), items.end(), [this](const auto *a, const auto *b) {
      return order(runtime_, a->first, b->first) == std::partial_ordering::less;
    });
  }

  Runtime &runtime_;
  const JsonStyle &style_;
  TextBuilder out_;
  uint32_t level_ = 0;
};

}  // namespace

TracedText to_json(Runtime &runtime, const Value &value, const JsonStyle &style) {
  JsonWriter writer(runtime, style);
  writer.write(value);
  return writer.take();
}

}  // namespace bonsai::jinja
