// Byte-level BPE with the model's own pre-tokenizer pattern, as Qwen's tokenizers do it (DESIGN §10).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/file.h"

namespace bonsai::text {

enum class SpecialTokens { kParse, kPlain };  // kPlain: "<|im_end|>" in the text is eleven ordinary characters

// Everything that makes a tokenizer, independent of the file it came from; what bonsai-convert writes into GGUF.
struct TokenizerData {
  std::vector<std::string> tokens;  // by id, in the byte alphabet of GPT-2 (special tokens: as they are)
  std::vector<int32_t> types;       // GGUF's: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte
  std::vector<std::string> merges;  // "left right", best first
  std::string pre;                  // GGUF's tokenizer.ggml.pre: "qwen2"
  std::optional<int32_t> bos, eos, pad;
  bool add_bos = false;
  std::string chat_template;  // Jinja source, or empty
};

// From `tokenizer.ggml.*` metadata; names the key that is missing or wrong.
Result<TokenizerData> read_tokenizer(const gguf::File &file);
// From the text of tokenizer.json and (may be empty) tokenizer_config.json, Hugging Face's layout.
Result<TokenizerData> read_tokenizer_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json);

// Immutable after creation; every method may be called from any thread at once.
class Tokenizer {
 public:
  static Result<Tokenizer> create(TokenizerData data);
  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  // Ids of `text` after NFC. Invalid UTF-8 is an error that names the byte offset. Nothing is added in front.
  Result<std::vector<int32_t>> encode(std::string_view text, SpecialTokens special) const;

  // Bytes of one token, or of several joined: byte-level tokens become their bytes, control tokens their spelling when
  // `show_control`, else nothing. Ids outside the vocabulary give nothing.
  std::string decode(std::span<const int32_t> ids, bool show_control = false) const;

  uint32_t size() const;
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  bool add_bos() const;  // a prompt begins with bos()
  bool is_control(int32_t id) const;
  bool is_end_of_generation(int32_t id) const;                // eos, <|im_end|>, <|endoftext|> and their kin
  std::optional<int32_t> find(std::string_view token) const;  // a token by its spelling
  std::string_view spelling(int32_t id) const;
  const std::string &chat_template() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Turns a stream of tokens into a stream of whole UTF-8 characters: push() returns what is complete, flush() the rest
// (an unfinished sequence becomes U+FFFD).
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer &tokenizer, bool show_control = false);
  std::string push(int32_t id);
  std::string flush();

 private:
  const Tokenizer &tokenizer_;
  bool show_control_;
  std::string pending_;
};

}  // namespace bonsai::text
