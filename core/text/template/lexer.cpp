#include "core/text/template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "core/base/utf8.h"
#include "core/text/template/characters.h"
#include "core/text/template/string_literal.h"

namespace bonsai::jinja {
namespace {

using Kind = Token::Kind;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_ascii_digit(c); }

// Line ends as \n, and the last one left out.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

// Longest first, so that the first that fits is the right one.
constexpr std::array<std::string_view, 26> kOperators = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (error_.empty() && at_ < source_.size()) read_text_and_tag();
    if (!error_.empty()) return tl::unexpected(Error{std::move(error_)});
    add(Kind::kEnd);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool at(std::string_view text) const { return rest().starts_with(text); }

  void advance(size_t n) {
    line_ += static_cast<uint32_t>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                              source_.begin() + static_cast<ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
  }

  // An error ends the walk.
  void fail(uint32_t line, std::string_view message) {
    if (error_.empty()) error_ = fmt::format("line {}: {}", line, message);
    at_ = source_.size();
  }

  void add(Kind kind, std::string text = {}) { tokens_.push_back({kind, line_, std::move(text)}); }

  void add_data(std::string_view text) {
    if (!text.empty()) add(Kind::kData, std::string(text));
  }

  // What precedes a tag, as far as the tag's sign and lstrip_blocks leave it.
  std::string_view text_before(std::string_view text, std::string_view tag) const {
    const char sign = tag.size() > 2 ? tag[2] : '\0';
    if (sign == '-') return without_trailing_space(text);
    if (sign == '+' || tag.starts_with("{{")) return text;
    const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
    if (line_begin == 0 && !at_line_start_) return text;
    return without_leading_space(text.substr(line_begin)).empty() ? text.substr(0, line_begin) : text;
  }

  void read_text_and_tag() {
    const std::string_view source = rest();
    size_t begin = 0;
    for (;; ++begin) {
      begin = source.find('{', begin);
      if (begin == source.npos || begin + 1 >= source.size()) {
        add_data(source);
        return advance(source.size());
      }
      const char next = source[begin + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    add_data(text_before(source.substr(0, begin), source.substr(begin)));
    advance(begin);
    if (at("{#")) return skip_comment();
    if (try_raw()) return;
    read_tag();
  }

  // Whatever closes a tag: "%}", "-%}", "+%}"; `closer` is without the sign. Takes the whitespace that goes with it.
  void close_tag(std::string_view closer) {
    const bool strips = at("-"), keeps = at("+");
    advance(closer.size() + (strips || keeps ? 1 : 0));
    if (strips) {
      advance(rest().size() - without_leading_space(rest()).size());
    } else if (!keeps && closer != "}}" && at("\n")) {
      advance(1);
    }
    at_line_start_ = at_ > 0 && source_[at_ - 1] == '\n';
  }

  bool at_closer(std::string_view closer) const {
    const bool has_sign = at("-") || (at("+") && closer != "}}");
    return rest().substr(has_sign ? 1 : 0).starts_with(closer);
  }

  void skip_comment() {
    const uint32_t line = line_;
    const size_t begin = at_ + (at("{#-") || at("{#+") ? 3 : 2);
    const size_t end = source_.find("#}", begin);
    if (end == std::string::npos) return fail(line, "the comment is never closed: expected '#}'");
    const bool has_sign = end > begin && (source_[end - 1] == '-' || source_[end - 1] == '+');
    advance(end - at_ - (has_sign ? 1 : 0));
    close_tag("#}");
  }

  size_t skip_spaces(size_t at) const {
    while (at < source_.size() && is_space(static_cast<uint8_t>(source_[at])) &&
           static_cast<uint8_t>(source_[at]) < 0x80)
      ++at;
    return at;
  }

  // The end of a tag that holds nothing but `name`, before its closer's sign; npos: it is another tag.
  size_t end_of_plain_tag(size_t tag, std::string_view name) const {
    size_t at = tag + 2;
    if (at < source_.size() && (source_[at] == '-' || source_[at] == '+')) ++at;
    at = skip_spaces(at);
    if (source_.compare(at, name.size(), name) != 0) return std::string::npos;
    at = skip_spaces(at + name.size());
    const std::string_view closer = std::string_view(source_).substr(std::min(at, source_.size()));
    const bool closes = closer.starts_with("%}") || closer.starts_with("-%}") || closer.starts_with("+%}");
    return closes ? at : std::string::npos;
  }

  // {% raw %}: up to {% endraw %} everything is text.
  bool try_raw() {
    if (!at("{%")) return false;
    const size_t open_end = end_of_plain_tag(at_, "raw");
    if (open_end == std::string::npos || source_[open_end] == '+') return false;
    const uint32_t line = line_;
    const bool strips = source_[open_end] == '-';
    advance(open_end - at_ + (strips ? 3 : 2));
    if (strips) advance(rest().size() - without_leading_space(rest()).size());
    at_line_start_ = source_[at_ - 1] == '\n';
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos; tag = source_.find("{%", tag + 1)) {
      const size_t close_end = end_of_plain_tag(tag, "endraw");
      if (close_end == std::string::npos) continue;
      const std::string_view source = source_;
      add_data(text_before(source.substr(at_, tag - at_), source.substr(tag)));
      advance(close_end - at_);
      close_tag("%}");
      return true;
    }
    fail(line, "'raw' is never closed: expected '{% endraw %}'");
    return true;
  }

  void read_tag() {
    const bool prints = at("{{");
    const uint32_t line = line_;
    const std::string_view closer = prints ? "}}" : "%}";
    add(prints ? Kind::kPrintBegin : Kind::kBlockBegin);
    advance(2);
    if (at("-") || at("+")) advance(1);
    std::string open;  // closing brackets that are expected
    while (error_.empty()) {
      advance(skip_spaces(at_) - at_);
      if (at_ >= source_.size()) return fail(line, fmt::format("the tag is never closed: expected '{}'", closer));
      if (open.empty() && at_closer(closer)) break;
      read_token(open);
    }
    if (!error_.empty()) return;
    add(prints ? Kind::kPrintEnd : Kind::kBlockEnd);
    close_tag(closer);
  }

  void read_token(std::string &open) {
    const char c = source_[at_];
    if (is_ascii_digit(c)) return read_number();
    if (is_name_start(c)) return read_name();
    if (c == '\'' || c == '"') return read_string();
    for (const std::string_view op : kOperators) {
      if (!at(op)) continue;
      add(Kind::kOperator, std::string(op));
      balance(c, open);
      if (error_.empty()) advance(op.size());
      return;
    }
    fail(line_, fmt::format("unexpected character {}", bonsai::quoted(first_character())));
  }

  std::string_view first_character() const {
    size_t length = 1;
    while (length < rest().size() && (static_cast<uint8_t>(rest()[length]) & 0xC0) == 0x80) ++length;
    return rest().substr(0, length);
  }

  void balance(char bracket, std::string &open) {
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    if (const size_t kind = kOpening.find(bracket); kind != std::string_view::npos) {
      open += kClosing[kind];
    } else if (kClosing.find(bracket) != std::string_view::npos) {
      if (open.empty()) return fail(line_, fmt::format("unexpected '{}'", bracket));
      if (open.back() != bracket)
        return fail(line_, fmt::format("unexpected '{}'; expected '{}'", bracket, open.back()));
      open.pop_back();
    }
  }

  void read_name() {
    const auto end = std::find_if_not(rest().begin(), rest().end(), is_name_part);
    const std::string_view name(rest().begin(), end);
    add(Kind::kName, std::string(name));
    advance(name.size());
  }

  void read_string() {
    const std::string_view source = rest();
    size_t end = 1;
    while (end < source.size() && source[end] != source[0]) end += source[end] == '\\' ? 2 : 1;
    if (end >= source.size()) return fail(line_, "the string is never closed");
    auto text = decode_string_literal(source.substr(1, end - 1));
    if (!text) return fail(line_, text.error().message);
    add(Kind::kString, *std::move(text));
    advance(end + 1);
  }

  // Digits with single underscores between them, from source_[at]; returns their end.
  size_t digits_end(size_t at) const {
    while (at < source_.size() &&
           (is_ascii_digit(source_[at]) || (source_[at] == '_' && at + 1 < source_.size() &&
                                            is_ascii_digit(source_[at + 1]) && is_ascii_digit(source_[at - 1]))))
      ++at;
    return at;
  }

  void read_number() {
    if (at("0x") || at("0X")) return read_integer(16);
    if (at("0o") || at("0O")) return read_integer(8);
    if (at("0b") || at("0B")) return read_integer(2);
    size_t end = digits_end(at_);
    const size_t whole_end = end;
    if (end + 1 < source_.size() && source_[end] == '.' && is_ascii_digit(source_[end + 1])) end = digits_end(end + 1);
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
      if (exponent < source_.size() && is_ascii_digit(source_[exponent])) end = digits_end(exponent);
    }
    // As in "a.0.b", where "0.b" is no number; and a number behind a dot is an index.
    const bool is_index = !tokens_.empty() && tokens_.back().kind == Kind::kOperator && tokens_.back().text == ".";
    if (end == whole_end || is_index) return read_integer(10);
    add(Kind::kFloat, without_underscores(std::string_view(source_).substr(at_, end - at_)));
    advance(end - at_);
  }

  static std::string without_underscores(std::string_view digits) {
    std::string out(digits);
    out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
    return out;
  }

  void read_integer(int base) {
    const size_t begin = at_ + (base == 10 ? 0 : 2);
    size_t end = begin;
    while (end < source_.size() &&
           (base == 16 ? is_name_part(source_[end]) : is_ascii_digit(source_[end]) || source_[end] == '_'))
      ++end;
    const std::string_view spelled = std::string_view(source_).substr(begin, end - begin);
    const bool misplaced = spelled.ends_with('_') || spelled.find("__") != spelled.npos;
    const std::string digits = without_underscores(spelled);
    int64_t value = 0;
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error == std::errc::result_out_of_range)
      return fail(line_, fmt::format("the number {} exceeds 64 bits", digits));
    if (misplaced || error != std::errc() || last != digits.data() + digits.size() ||
        (base == 10 && digits.size() > 1 && digits[0] == '0' && value != 0))
      return fail(line_,
                  fmt::format("{} is no number", bonsai::quoted(std::string_view(source_).substr(at_, end - at_))));
    tokens_.push_back({Kind::kInteger, line_, digits, value});
    advance(end - at_);
  }

  const std::string source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool at_line_start_ = true;  // the text at hand begins a line
  std::vector<Token> tokens_;
  std::string error_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) { return Lexer(normalize_newlines(source)).run(); }

}  // namespace bonsai::jinja
