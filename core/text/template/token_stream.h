// The parser's view of the tokens: one after the other, with an error that ends the stream.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "core/text/template/lexer.h"

namespace bonsai::jinja {

class TokenStream {
 public:
  // Precondition: the last token is kEnd.
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token &current() const { return tokens_[at_]; }
  const Token &next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  uint32_t line() const { return current().line; }

  // Gives out the current token and moves on; stays at kEnd.
  const Token &take() {
    const Token &token = tokens_[at_];
    at_ = std::min(at_ + 1, tokens_.size() - 1);
    return token;
  }

  bool at(Token::Kind kind) const { return current().kind == kind; }
  bool at_operator(std::string_view text) const { return at(Token::Kind::kOperator) && current().text == text; }
  bool at_name(std::string_view text) const { return at(Token::Kind::kName) && current().text == text; }

  bool skip_operator(std::string_view text) { return at_operator(text) && (take(), true); }
  bool skip_name(std::string_view text) { return at_name(text) && (take(), true); }

  // Whether a name occurs among the tokens that were taken since place() was `from`.
  size_t place() const { return at_; }
  bool names_since(size_t from, std::string_view name) const {
    return std::any_of(tokens_.begin() + static_cast<ptrdiff_t>(from), tokens_.begin() + static_cast<ptrdiff_t>(at_),
                       [name](const Token &token) { return token.kind == Token::Kind::kName && token.text == name; });
  }

  void expect(Token::Kind kind, std::string_view what) {
    if (at(kind)) {
      take();
    } else {
      fail_expected(what);
    }
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) fail_expected(fmt::format("'{}'", text));
  }
  void expect_name(std::string_view text) {
    if (!skip_name(text)) fail_expected(fmt::format("'{}'", text));
  }
  // A name of the template's choice; empty after an error.
  std::string take_name(std::string_view what) {
    if (at(Token::Kind::kName)) return take().text;
    fail_expected(what);
    return {};
  }

  // The first error sticks and jumps to the end, which closes whatever the parser is in.
  void fail_at(uint32_t line, std::string_view message) {
    if (error_.empty()) error_ = fmt::format("line {}: {}", line, message);
    at_ = tokens_.size() - 1;
  }
  void fail(std::string_view message) { fail_at(line(), message); }
  void fail_expected(std::string_view what) { fail(fmt::format("expected {}, found {}", what, describe_current())); }
  bool failed() const { return !error_.empty(); }
  std::string &error() { return error_; }

  std::string describe_current() const {
    switch (current().kind) {
      case Token::Kind::kData:
        return "text";
      case Token::Kind::kPrintBegin:
        return "'{{'";
      case Token::Kind::kPrintEnd:
        return "'}}'";
      case Token::Kind::kBlockBegin:
        return "'{%'";
      case Token::Kind::kBlockEnd:
        return "'%}'";
      case Token::Kind::kString:
        return "the string " + bonsai::quoted(current().text);
      case Token::Kind::kEnd:
        return "the end of the template";
      default:
        return bonsai::quoted(current().text);
    }
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace bonsai::jinja
