// Cuts text into the words that byte-pair encoding works on, with the pattern that the model was trained with.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "core/base/result.h"

// PCRE2's own names, so that its header stays in one source file.
struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace bonsai::text {

// The name by which GGUF's tokenizer.ggml.pre calls a pattern of tokenizer.json; nullopt when we do not know it.
std::optional<std::string_view> pre_tokenizer_of_pattern(std::string_view pattern);

// A compiled pattern, immutable and shared by threads.
class PreTokenizer {
 public:
  // By tokenizer.ggml.pre. Unknown names are an error that lists the known ones: a wrong pattern would give text that
  // looks right and ids that the model never saw.
  static Result<PreTokenizer> create(std::string_view pre);

 private:
  friend class WordCursor;
  struct Free {
    void operator()(pcre2_real_code_8 *code) const;
    void operator()(pcre2_real_match_context_8 *context) const;
    void operator()(pcre2_real_match_data_8 *match) const;
  };
  PreTokenizer() = default;
  std::unique_ptr<pcre2_real_code_8, Free> code_;
  std::unique_ptr<pcre2_real_match_context_8, Free> limits_;
};

// Walks over the words of one text. Together the words are the text: what the pattern leaves out is a word too.
class WordCursor {
 public:
  // Precondition: `text` is well-formed UTF-8.
  WordCursor(const PreTokenizer &pattern, std::string_view text);

  // The next word, empty at the end. Fails only if PCRE2 runs out of memory.
  Result<std::string_view> next();

 private:
  const PreTokenizer &pattern_;
  std::string_view text_;
  size_t at_ = 0;           // what lies before has been given out
  size_t match_begin_ = 0;  // a match that waits for the text before it to be given out
  size_t match_end_ = 0;
  std::unique_ptr<pcre2_real_match_data_8, PreTokenizer::Free> match_;
};

}  // namespace bonsai::text
