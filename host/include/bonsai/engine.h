// Text from a low-bit language model, in five lines:
//
//   #include <bonsai/engine.h>
//   bonsai::Engine engine = bonsai::Engine::load({.model = "Bonsai-8B.gguf"});
//   engine.generate("Once upon a time", {.max_tokens = 100}, [](std::string_view text) {
//     return static_cast<bool>(std::cout << text << std::flush);
//   });
//
// The library keeps no global state, prints nothing and never ends the process. Errors are exceptions of type
// EngineError, with one line that says what is wrong and what was expected.
//
// Before 1.0 this and the other C++ headers may change from one 0.x to the next, whose library has another name;
// bonsai.h, for C, and backend.h, for backends, only grow.
//
// C++20. An Engine, Session, Chat or BatchEngine that was moved from may only be destroyed or assigned to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <bonsai/embedding.h>
#include <bonsai/export.h>
#include <bonsai/logprobs.h>
#include <bonsai/sampling.h>

namespace bonsai {

enum class ErrorKind {
  // A caller's mistake: an option out of range, or one for a backend that none knows or that it refuses; a token id; an
  // empty or invalid text; a grammar; a conversation. Also a session file that cannot be read, written or used here.
  kInvalidArgument,
  // The model's file cannot be read or is refused, or it lacks the tokenizer or chat template that is needed.
  kModel,
  // No backend could be opened; or one failed, whatever it called its failure, and the CPU did not take over, as it is
  // what failed, cannot be opened, or may not (EngineOptions::backend_strict). Also results with NaN, of the CPU.
  kBackend,
  // The sequence does not fit.
  kContextFull,
};

class BONSAI_API EngineError : public std::runtime_error {
 public:
  EngineError(ErrorKind kind, const std::string &message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

enum class KvType : uint32_t { kF16 = 0, kQ8_0 = 1, kF32 = 2 };  // what keys and values are stored as

enum class LogLevel : uint32_t { kDebug = 0, kInfo = 1, kWarning = 2, kError = 3 };

struct EngineOptions {
  std::string model = {};  // path of a GGUF file; of a model in parts, the first one

  // "auto" (the first with a device that opens, the CPU last), a name ("cpu"), or the path of a shared object, with a
  // '/'. NAME is libbonsai_NAME.so in the first directory where it loads, of these: those of the environment variable
  // BONSAI_BACKEND_PATH, separated by ':'; ../lib/bonsai from the program's; bonsai/ beside libbonsai.so; the installed
  // LIBDIR/bonsai.
  std::string backend = "auto";
  // What was asked for, or an error. Else the CPU takes over with a warning from a backend that cannot be opened or
  // cannot run the model, and from one that fails later, whatever the failure: a session goes on there with its tokens,
  // and its text does not show it. What does not fit beside the rest (a session, a batch, an embedding) goes to the CPU
  // alone.
  bool backend_strict = false;
  std::vector<std::pair<std::string, std::string>> backend_options = {};  // {"cpu.isa", "avx2"}
  uint32_t threads = 0;                                                   // of the CPU backend; 0: its own choice

  static constexpr uint32_t kWholeContext = UINT32_MAX;
  uint32_t context = 0;  // most tokens of a session; kWholeContext: the model's; 0: likewise, but 4,096 at most
  KvType kv = KvType::kF16;

  std::string chat_template = {};  // in Jinja, in the place of the file's own; empty: that one

  // Weights brought to the device so far and in all, in bytes; called by the loading thread.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress = {};
  // Lines for a person: which backend was chosen and why others were not, warnings about the file. May be called from
  // any thread, by one at a time, as long as the engine or one of its sessions lives; it must not call these. It should
  // not throw: an exception is swallowed where a backend logs, as while it opens; elsewhere it leaves the function that
  // was called.
  std::function<void(LogLevel level, std::string_view line)> log = {};
};

class Engine;

struct GenerateOptions {
  uint32_t max_tokens = 256;
  SamplingOptions sampling = {};
  std::vector<std::string> stop = {};  // the text ends before the first of these, none of which is empty
  bool ignore_eos = false;             // tokens that end a text are never chosen
  // The text follows a grammar in llama.cpp's notation (GBNF), or is JSON that satisfies a schema; docs/grammars.md
  // (installed in share/doc/bonsai) says what is known. Not both. Whenever the text ends by itself (kEndOfText) it is
  // complete.
  std::string grammar = {};
  std::string json_schema = {};
  // With json_schema: the text may be calls of tools instead, each JSON that satisfies this schema between
  // "<tool_call>" and "</tool_call>", in lines of their own, as Qwen's models call.
  std::string call_schema = {};
  // Guesses at the next tokens, which the model then verifies several at a time: less time where they are often right,
  // and the same text, seed for seed (on a backend that declares BONSAI_FEATURE_DETERMINISTIC, and the CPU's does; else
  // what rounding makes of it). How many are guessed follows from how many were right and what that takes, down to
  // none. `lookup`: what followed the last tokens where they stood earlier in the text. `draft`: a smaller model with
  // the same vocabulary; its sessions keep it alive. With both the lookup comes first. A BatchEngine only looks up.
  bool lookup = false;
  std::shared_ptr<const Engine> draft = {};
  // Not 0: Generation::logprobs tells how likely each token was, and so many of the likeliest; at most all there are.
  uint32_t logprobs = 0;
  // With these: Generation::prompt_logprobs tells the same of the prompt, from the token with this index on. What comes
  // before it may have been computed for an earlier request. For a BatchEngine: a session has evaluate().
  std::optional<uint32_t> prompt_logprobs_from = {};
  std::stop_token cancel = {};  // ends the generation at the next token, or between two pieces of a long prompt
};

enum class FinishReason {
  kLength,       // max_tokens reached
  kEndOfText,    // the model ended its text, or the grammar allows nothing more
  kStopString,   // one of GenerateOptions::stop
  kContextFull,  // the session holds no more tokens
  kCancelled,    // by the callback or the stop token
};

// "length", "end_of_text", "stop_string", "context_full", "cancelled".
BONSAI_API std::string_view finish_reason_name(FinishReason reason);

struct GenerationStats {
  uint64_t seed = 0;                // that was used
  uint32_t prompt_tokens = 0;       // that were computed before the first new one
  double prompt_seconds = 0;        // time for these
  uint32_t decode_steps = 0;        // new tokens that were fed back: all but the last
  uint32_t decode_passes = 0;       // of the model for these: as many, or fewer where guesses were right
  double decode_seconds = 0;        // time for these, for sampling and for guessing
  uint32_t proposed_tokens = 0;     // guesses that the passes verified
  uint32_t accepted_tokens = 0;     // of these, what the text went on with
  double seconds_one_by_one = 0;    // estimate of decode_seconds without guesses; 0: they were not asked for, no pass
                                    // without them was made to judge by, or the passes were shared (BatchEngine)
  uint32_t constrained_tokens = 0;  // choices made under a grammar or schema
  double constraint_seconds = 0;    // what that cost in all
  double compile_seconds = 0;       // what it took before to read the grammar; next to nothing if it was used before
  std::string failed_over = {};     // why the backend was left for the CPU meanwhile; empty: it was not
};

struct Generation {
  std::string text;                           // what the callback received in all
  std::vector<int32_t> tokens;                // without the one that ended the text
  std::vector<TokenLogProbs> logprobs;        // one for each of `tokens`, if GenerateOptions::logprobs asks for them
  std::optional<TokenLogProbs> end_logprobs;  // likewise of the token that ended the text, if the model chose one
  // One for each token of the prompt from GenerateOptions::prompt_logprobs_from on, but none for the first of all,
  // which follows nothing; fewer if the text was cancelled before.
  std::vector<TokenLogProbs> prompt_logprobs;
  FinishReason finish = FinishReason::kLength;
  std::string stop = {};  // kStopString: the one that ended the text, which is no part of it
  GenerationStats stats;
};

// Receives text as it comes, in whole UTF-8 characters and never empty. Returning false ends the generation. Meanwhile
// calls that change the session or chat that generates, or save it, are refused with kInvalidArgument; so with
// LogitsCallback. It may be destroyed or assigned to: what was there lives until the call is over, which goes on to its
// end.
using TextCallback = std::function<bool(std::string_view text)>;

// Receives the logits (vocabulary) that follow the `index`-th of the given tokens; valid during the call.
using LogitsCallback = std::function<void(size_t index, std::span<const float> logits)>;

struct ModelInfo {
  std::string name;  // as the file calls itself, or empty
  uint32_t vocabulary = 0;
  uint32_t trained_context = 0;   // positions that the model knows
  uint32_t context = 0;           // most tokens of a session here
  uint32_t embedding = 0;         // numbers in an embedding: the model's hidden size
  Pooling pooling = {};           // Pooling::kModel is this one
  SamplingOptions sampling = {};  // as the file's general.sampling.* say, and "balanced" for what they do not
};

struct BackendInfo {
  std::string name, version, path;
  std::string device;            // "AMD EPYC 7B13"
  std::string kernel;            // "avx2", "sm_90a"; empty where the backend does not say
  uint32_t threads = 0;          // likewise 0
  int level = 0;                 // 0, 1 or 2: how much of the model it runs itself (backend.h)
  std::string failed_over = {};  // why this is not the backend that was opened first; empty: it is
};

struct MemoryInfo {
  uint64_t weight_bytes = 0;   // on the device, mapped file pages not counted
  uint64_t mapped_bytes = 0;   // of the file, used in place
  uint64_t session_bytes = 0;  // KV cache and scratch of one session
};

// One kind of work that a backend does, and what it cost while it was measured.
struct ProfilePhase {
  std::string name;  // "attention", "qkv"; backend.h lists the usual ones
  double seconds = 0;
  uint64_t calls = 0;  // times that it was done
  uint64_t bytes = 0;  // of weights, keys and values that it had to read; 0: not counted
};

namespace host {
class ChatState;
struct EngineState;
class SessionState;
}  // namespace host

// One sequence of tokens with its KV cache. Used by one thread at a time; different sessions of one engine may be used
// at once. Keeps what it needs of its engine alive.
class BONSAI_API Session {
 public:
  Session(Session &&) noexcept;
  Session &operator=(Session &&) noexcept;
  ~Session();

  // Puts text at the end; special tokens that are spelled out in it count as such. At the start of a session the
  // model's BOS token comes first if it wants one, and also where an empty text would otherwise leave nothing to start
  // from. Nothing is computed yet. Errors, which change nothing: invalid UTF-8, with its offset; context full, with how
  // long the text is and how much room there is; an empty text and a model without BOS.
  void append(std::string_view text);
  // The same for ids. Errors: none at all, an id outside the vocabulary, context full.
  void append_tokens(std::span<const int32_t> tokens);

  // Continues the sequence until something ends it. What was generated stays at the end of the session (but for the
  // token that ended the text), so that append() and generate() may follow. Errors: an empty or full session, options
  // out of range, a backend that fails where the CPU cannot or may not take over.
  Generation generate(const GenerateOptions &options = {}, const TextCallback &callback = {});

  // The logits (vocabulary) that follow the last token.
  std::vector<float> logits();

  // Appends tokens and hands out the logits behind each of them.
  void evaluate(std::span<const int32_t> tokens, const LogitsCallback &callback);

  // Forgets every token from `length` on; a length beyond the end changes nothing.
  void truncate(uint32_t length);

  // Writes the session to a file: its tokens, and the keys and values computed so far. load() puts it in the place of
  // what this session holds, so that it goes on where it was, on any backend, without computing the tokens again; only
  // where the KV type is another one, or a backend does not hand its cache out, they are. Errors, which change nothing:
  // a path that cannot be read or written, another kind of file or version, damage, another model, a context too short.
  // save() replaces a session or an empty file in one step, also where a symbolic link leads to it; what is something
  // else, such as a model or a device, it refuses. The file keeps its permissions; a new one is for its owner only.
  void save(const std::string &path) const;
  void load(const std::string &path);

  std::span<const int32_t> tokens() const;
  uint32_t length() const;
  uint32_t room() const;  // tokens that can still be appended

 private:
  friend class Engine;
  friend class host::ChatState;
  explicit Session(std::unique_ptr<host::SessionState> state);
  std::unique_ptr<host::SessionState> state_;
};

// A model on a device: on the CPU, once another backend has failed. Every method may be called from any thread.
class BONSAI_API Engine {
 public:
  // Maps and checks the file, opens a backend and brings the weights to it.
  static Engine load(const EngineOptions &options);

  Engine(Engine &&) noexcept;
  Engine &operator=(Engine &&) noexcept;
  ~Engine();

  // Continues a prompt in a session of its own: Session::append() and generate().
  Generation generate(std::string_view prompt, const GenerateOptions &options = {},
                      const TextCallback &callback = {}) const;

  Session new_session() const;

  // One vector for a text, (the model's hidden size) long and of length 1: texts are alike where the dot product of
  // theirs is near 1. The model's BOS comes first, and its EOS last, if it wants them; special tokens that are spelled
  // out are plain text.
  // Errors: an empty text, invalid UTF-8, a file without tokenizer, more tokens than the context, options out of range,
  // a backend that fails where the CPU cannot or may not take over.
  std::vector<float> embed(std::string_view text, const EmbeddingOptions &options = {}) const;
  // The same for ids, nothing added. Errors: none at all, an id outside the vocabulary, and what else applies.
  std::vector<float> embed_tokens(std::span<const int32_t> tokens, const EmbeddingOptions &options = {}) const;

  // Ids of a text, nothing added in front. `parse_special`: special tokens that are spelled out are one token each;
  // else they are plain text. Errors: invalid UTF-8, a file without tokenizer.
  std::vector<int32_t> tokenize(std::string_view text, bool parse_special = true) const;
  // What embed() makes of a text, and its errors.
  std::vector<int32_t> tokenize_to_embed(std::string_view text) const;
  // What a session begins with that is given this text first (Session::append()): special tokens count as such, and the
  // model's BOS comes first where it does there. Errors: also an empty text and a model without BOS.
  std::vector<int32_t> tokenize_prompt(std::string_view text) const;
  // The text of ids. `show_special`: control tokens are spelled out; else they are no text, but for <think>, </think>,
  // <tool_call> and </tool_call>. Errors: an id outside the vocabulary, a file without tokenizer.
  std::string detokenize(std::span<const int32_t> tokens, bool show_special = false) const;
  // Whether a text ends where the model chooses this token: its EOS, <|im_end|> and their kin. Errors: an id outside
  // the vocabulary, a file without tokenizer.
  bool ends_text(int32_t token) const;

  ModelInfo model() const;
  BackendInfo backend() const;  // where new sessions run
  MemoryInfo memory() const;

  // From now on the backend measures where its time goes, for all sessions that run where new ones would; what was
  // measured before is forgotten. False: it does not offer that. Errors, of both: a backend that fails.
  bool start_profile() const;
  // Ends that. Phases do not overlap, and are in the order of a forward pass.
  std::vector<ProfilePhase> stop_profile() const;

 private:
  friend class Session;
  friend class Chat;
  friend class ChatFormat;
  friend class BatchEngine;
  explicit Engine(std::shared_ptr<host::EngineState> state);
  std::shared_ptr<host::EngineState> state_;
};

}  // namespace bonsai
