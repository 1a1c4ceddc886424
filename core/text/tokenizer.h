// Byte-level BPE with the model's own pre-tokenizer pattern, as Qwen's tokenizers do it.
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
#include "core/text/byte_range.h"

namespace bonsai::gguf {
class Writer;
}

namespace bonsai::text {

// How special tokens that are spelled out in a text are read. kParse: "<|im_end|>" is one token. kPlain: it is ten
// ordinary characters, so that a user's words cannot forge a turn. User-defined tokens (GGUF type 4: "<think>",
// "<tool_call>") carry no such power and are always one token, as in llama.cpp and Hugging Face's tokenizers.
enum class SpecialTokens { kParse, kPlain };

// Everything that makes a tokenizer, independent of the file it came from; what bonsai-convert writes into GGUF.
struct TokenizerData {
  std::vector<std::string> tokens;  // by id, in the byte alphabet of GPT-2 (special tokens: as they are)
  // GGUF's: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; empty: all normal
  std::vector<int32_t> types;
  std::vector<std::string> merges;  // "left right", best first
  std::string pre;                  // GGUF's tokenizer.ggml.pre: "qwen2"
  std::optional<int32_t> bos, eos, pad;
  // What ends a generation beside eos: GGUF's eot_token_id, eom_token_id and eos_token_ids.
  std::vector<int32_t> more_eos;
  bool add_bos = false;
  bool add_eos = false;       // a text to embed ends with eos
  std::string chat_template;  // Jinja source, or empty
};

// From `tokenizer.ggml.*` metadata. Errors begin with the file's path and name the key that is missing or wrong.
Result<TokenizerData> read_tokenizer(const gguf::File &file);
// From the text of tokenizer.json and (may be empty) tokenizer_config.json, Hugging Face's layout. Errors begin with
// the file's name. What would change ids and has no place in TokenizerData (another normalizer, a split pattern that is
// not in our table, tokens that strip spaces, one of normalized texts that is not in NFC itself, a merge that is there
// twice, a post-processor that adds more than bos in front of a text and one token behind it) is refused. That last
// token is eos then, and the configuration's eos one of more_eos. Ids that nothing names become unused "[PADid]"
// tokens.
// `warnings` gets a line on chat templates that are left out, and on a truncation.
Result<TokenizerData> read_tokenizer_json(std::string_view tokenizer_json, std::string_view tokenizer_config_json,
                                          std::vector<std::string> &warnings);
// Sets the `tokenizer.*` keys that read_tokenizer() reads back. Call it before Writer::begin_data().
void write_tokenizer(const TokenizerData &data, gguf::Writer &writer);
// Makes these ids, which have no spelling yet, unused "[PADid]" tokens, with something behind where a token is spelt so
// already.
void make_unused(TokenizerData &data, std::span<const size_t> ids);
// Appends such tokens up to `size`, so that there are as many tokens as rows in the embedding. Does nothing where there
// are that many already.
void pad_tokens(TokenizerData &data, size_t size);

// Immutable after creation; every method may be called from any thread at once.
class Tokenizer {
 public:
  // Checks everything; errors name the `tokenizer.ggml.*` key and the element.
  // With a warning, as in llama.cpp: tokens with the names that end a text, "<|im_end|>" and its kin, become control
  // tokens, unless merges make them of plain text; ids that are no token's are dropped, of bos and eos where nothing
  // wants them; tokens of type 0 (undefined) are unused, types beyond the tokens are ignored, and empty tokens, of
  // which there may be several, are what no text gives and decode to nothing.
  static Result<Tokenizer> create(TokenizerData data);
  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  // Ids of `text`. Invalid UTF-8 is an error that names the byte offset. Nothing is added in front. Special tokens are
  // looked for as they are spelled, and NFC is for each piece between them: a combining mark behind "<|im_end|>" does
  // not undo it. So does Hugging Face's library for added tokens with "normalized": false, which Qwen's all are.
  Result<std::vector<int32_t>> encode(std::string_view text, SpecialTokens special) const;

  // The same for a text of which `trusted` says where control tokens count: one is recognised if it is spelled out
  // wholly within one of these ranges. Elsewhere it is plain text, and the text between two control tokens is encoded
  // as one piece, whoever wrote which part of it.
  // Precondition: the ranges lie in `text`, in order and apart from one another.
  Result<std::vector<int32_t>> encode(std::string_view text, std::span<const ByteRange> trusted) const;

  // Bytes of one token, or of several joined: byte-level tokens become their bytes, control tokens their spelling when
  // `show_control`, else nothing (unused tokens likewise), but for <think>, </think>, <tool_call> and </tool_call>, by
  // which answers are read. Ids outside the vocabulary give nothing.
  std::string decode(std::span<const int32_t> ids, bool show_control = false) const;

  uint32_t size() const;
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  bool add_bos() const;  // a prompt begins with bos()
  bool add_eos() const;  // a text to embed ends with eos()
  bool is_control(int32_t id) const;
  bool is_special(int32_t id) const;                          // anything but bytes of ordinary text
  bool is_end_of_generation(int32_t id) const;                // eos, <|im_end|>, <|endoftext|> and their kin
  std::optional<int32_t> find(std::string_view token) const;  // a token by its spelling
  std::string_view spelling(int32_t id) const;
  const std::string &chat_template() const;
  // What of the file was not taken as it stands, one line each.
  const std::vector<std::string> &warnings() const;

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
