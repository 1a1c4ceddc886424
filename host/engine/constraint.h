// Generations whose text has to follow a grammar or a JSON schema.
#pragma once

#include <bonsai/engine.h>

#include <cstdint>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/grammar/matcher.h"
#include "core/text/tokenizer.h"

namespace bonsai::host {

// The grammars of an engine, compiled: those that were used last are kept, with their masks, and of those that are
// refused why. Every method may be called from any thread at once: none waits for the compiling of another grammar than
// its own.
class Constraints {
 public:
  // What GenerateOptions::grammar or json_schema says about a model's tokens (`size`: how many logits it has); null
  // where neither is given. Whoever asks for a grammar while it is compiled gets the same one, or the same error.
  // Throws EngineError: both are given, or calls without a schema, or what is given is refused.
  std::shared_ptr<grammar::TokenMasks> compile(const GenerateOptions &options, const text::Tokenizer &tokenizer,
                                               uint32_t size);
  // Whether that needs nothing to be compiled, nor to be waited for: no grammar is given, or one that is kept.
  bool knows(const GenerateOptions &options) const;

 private:
  using Masks = std::shared_ptr<grammar::TokenMasks>;
  struct Key {
    bool is_schema;
    std::string text, calls;
    bool operator==(const Key &) const = default;
  };
  struct Entry {
    Key key;
    std::shared_future<Masks> masks;  // there once whoever asked first has compiled them
  };
  static constexpr size_t kMostKept = 16;

  static Key key_of(const GenerateOptions &options);
  Masks compile(const Key &key, const text::Tokenizer &tokenizer, uint32_t size);

  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last in front [mutex_]
  std::once_flag first_;
  std::shared_ptr<const grammar::Vocabulary> vocabulary_;  // made for the first grammar [first_]
};

// One generation's way through its grammar.
class Constraint {
 public:
  explicit Constraint(std::shared_ptr<grammar::TokenMasks> masks);

  // Makes every token's logit -infinity that may not come next. Throws EngineError if that is all of them.
  void restrict(std::span<float> logits);
  // The same, but returns false.
  bool try_restrict(std::span<float> logits);
  // For whoever restricts them elsewhere: bit i % 32 of word i / 32 says whether token i may come next; empty if none
  // may. Valid until the next call.
  std::span<const uint32_t> mask();
  // Goes on behind a token. False if it is forbidden: nothing has changed then.
  bool accept(int32_t token);
  // The same for a token that is not forbidden. Throws EngineError where the grammar can be read in too many ways.
  void go_on(int32_t token);
  // Undoes the last `n` of these.
  void rollback(size_t n) { matcher_.rollback(n); }
  // Nothing but the end may follow.
  bool is_complete() const { return matcher_.is_complete(); }

 private:
  grammar::Matcher matcher_;
  std::vector<uint32_t> mask_;
};

}  // namespace bonsai::host
