// The template by which a model wants its conversations written: a program in Jinja's language, in the metadata of its
// file (https://huggingface.co/docs/transformers/chat_templating). Rendered as Hugging Face's transformers does it,
// byte for byte: Python's values and texts, trim_blocks and lstrip_blocks, `tojson` without HTML escapes,
// raise_exception(), strftime_now(), break and continue, {% generation %}.
//
// Not there, and an error when a template asks for it:
// - tags: include, import, extends, block and autoescape; recursive loops; arguments with '*';
// - values: integers beyond 64 bits, tuples as keys, dict() of pairs, methods that change an object;
// - the function lipsum; the filters filesizeformat, pprint, random, striptags, urlize, wordwrap and xmlattr;
// - the methods encode, expandtabs, isascii, isidentifier, istitle and translate of strings, and those of tuples;
// - in formats '{}': the types c and n, '_', the conversion 'a', a field within a field; in formats '%': '*' and %a.
//
// There, with another result than Python's: upper and lower case map one character to one. A slice of a range is a list
// and prints as one. A power that would be a complex number, (-8) ** 0.5, is nan. '\N{BULLET}' in a string stays as it
// is written. What a macro knows of itself, m.name and m.arguments, say, is undefined. `is sameas` tells a string from
// an equal one that stands elsewhere, but for single characters. A variable of the input which the template sets
// further down has its value in the loops and blocks before that, where Jinja, which tells names apart by the
// template's text, finds it undefined.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/text/byte_range.h"
#include "core/text/template/limits.h"

namespace bonsai::jinja {

// What a template sees, as JSON objects; the order of their keys is kept.
struct Variables {
  const nlohmann::ordered_json &input;    // "messages", "tools", "add_generation_prompt" and whatever else
  const nlohmann::ordered_json &trusted;  // "bos_token", "eos_token": may become control tokens, unlike input
};

struct RenderOptions {
  Limits limits = {};
  std::optional<std::time_t> now = {};  // what strftime_now() shows; nullopt: the time of the call
};

// A conversation as the model is to read it.
struct Rendered {
  std::string text;
  // Which of it the template's author (or Variables::trusted) wrote: in order, not empty, not touching one another. All
  // else came from the input, or was computed and counts as such. Only here may control tokens be recognised.
  std::vector<text::ByteRange> template_ranges;
};

// Immutable; every method may be called from any thread at once.
class ChatTemplate {
 public:
  // Errors are one line that names the template's line: "line 3: expected '%}', found 'x'".
  static Result<ChatTemplate> parse(std::string_view source);

  ChatTemplate(ChatTemplate &&) noexcept;
  ChatTemplate &operator=(ChatTemplate &&) noexcept;
  ~ChatTemplate();

  // Errors, in the same form: what the template does wrong or refuses (raise_exception), variables that are no objects,
  // text that is not UTF-8, a limit.
  Result<Rendered> render(const Variables &variables, const RenderOptions &options = {}) const;

  // Whether the template mentions a variable: a template without "tools" would leave them out silently.
  bool mentions(std::string_view variable) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

}  // namespace bonsai::jinja
