// Many texts at once from one model, in one batch after the other:
//
//   bonsai::Engine engine = bonsai::Engine::load({.model = "Bonsai-8B.gguf"});
//   bonsai::BatchEngine batch(engine, {.max_sequences = 8});
//   std::future<bonsai::Generation> first = batch.submit("Once upon a time", {.max_tokens = 100});
//   std::future<bonsai::Generation> second = batch.submit("The three laws of thermodynamics are");
//   std::cout << first.get().text << second.get().text;
//
// What a request says does not depend on the others: not on how many there are, when they came, what they share or
// whether one had to wait in the middle of its text (on a backend that declares BONSAI_FEATURE_DETERMINISTIC, and the
// CPU's does).
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <bonsai/engine.h>

namespace bonsai {

struct BatchOptions {
  uint32_t max_sequences = 16;  // requests that are computed at once; more than that wait
  uint32_t batch_tokens = 256;  // most in one step; at least max_sequences, at most 1,048,576. More let long prompts
                                // pass faster, fewer keep the texts meanwhile flowing
  uint32_t kv_tokens = 0;  // that the KV cache holds, shared by all requests and by what is kept of earlier ones; 0:
                           // as many as max_sequences full contexts, or 16,384 (or one context) if that is less. More
                           // are held where a backend's blocks hold more than a text needs
  bool share_prefixes = true;  // prompts that begin alike are computed once, for as long as there is room to keep them
};

// What goes on in a batch engine; the counts are since it was made.
struct BatchStats {
  uint32_t running = 0, waiting = 0;  // requests
  uint64_t steps = 0;
  uint64_t computed_tokens = 0;  // in these, prompts included, and again what was computed again
  uint64_t reused_tokens = 0;    // that did not have to be computed, as an earlier request or one of its own had
  uint64_t preemptions = 0;      // times that a request gave its place to one that came before
  uint32_t kv_blocks = 0;        // of the KV cache
  uint32_t kv_blocks_free = 0;   // of these, never used or given back
  uint32_t kv_blocks_kept = 0;   // of these, with what nobody uses just now, but may again
  uint32_t kv_block_tokens = 0;  // in one block
  uint32_t context = 0;          // most tokens of a request: the engine's, or the KV cache if that is smaller
  uint64_t memory_bytes = 0;     // KV cache and scratch
};

namespace host {
class BatchState;
}  // namespace host

// A service with a thread of its own, which all requests share. Every method may be called from any thread. Keeps what
// it needs of its engine alive, and may be used beside sessions of it. A process that fork() makes has no such thread:
// there it may neither be used nor destroyed.
class BONSAI_API BatchEngine {
 public:
  // Errors: options out of range, a backend that cannot hold the KV cache where the CPU cannot or may not take over.
  explicit BatchEngine(const Engine &engine, const BatchOptions &options = {});
  BatchEngine(BatchEngine &&) noexcept;
  BatchEngine &operator=(BatchEngine &&) noexcept;
  // Requests that have not ended end as cancelled. Until it returns callbacks may go on using this; what they submit is
  // refused with kInvalidArgument. On the engine's thread, in a callback or with one that is destroyed, it returns at
  // once and that happens behind it: callbacks may not use this any more. An assignment ends in the same way what was
  // here before.
  ~BatchEngine();

  // Continues a prompt as Engine::generate() does: the same text for the same options. The future gives what that
  // returns, or throws what that throws while it computes; what is wrong with the request is thrown here. In the stats,
  // prompt_seconds is the time from here to the first choice, and decode_seconds from there to the end.
  //
  // The callback runs on the engine's thread: all requests wait for it, and it must not wait for one. A request is
  // cancelled by its callback or by options.cancel, and is in no further step then. Of two requests the one with the
  // higher priority goes first, else the earlier.
  std::future<Generation> submit(std::string_view prompt, const GenerateOptions &options = {},
                                 const TextCallback &callback = {}, int32_t priority = 0);
  std::future<Generation> submit_tokens(std::span<const int32_t> tokens, const GenerateOptions &options = {},
                                        const TextCallback &callback = {}, int32_t priority = 0);

  // The same without a future: `done` is called once, on the engine's thread and after the last of the text, with the
  // generation or, where `error` is not null, with what the future would have thrown. All requests wait for it, too; it
  // must not throw.
  using DoneCallback = std::function<void(Generation generation, std::exception_ptr error)>;
  void start_tokens(std::span<const int32_t> tokens, const GenerateOptions &options, const TextCallback &callback,
                    const DoneCallback &done, int32_t priority = 0);

  // Continues all of them, and waits: in a callback that is refused with kInvalidArgument. Either all prompts are taken
  // or, with an error, none. Where one fails while it is computed, the others are cancelled, and its error is thrown
  // once all have ended.
  std::vector<Generation> generate(std::span<const std::string> prompts, const GenerateOptions &options = {});
  std::vector<Generation> generate_tokens(std::span<const std::vector<int32_t>> prompts,
                                          const GenerateOptions &options = {});

  // Reads the grammar or schema of the options, if they have one, ahead of the requests that do: that may take seconds.
  // Throws what is to be said against it. Those that were read last are kept; knows_grammar(): nothing has to be read.
  void read_grammar(const GenerateOptions &options) const;
  bool knows_grammar(const GenerateOptions &options) const;

  BatchStats stats() const;
  // Where it runs: not where new sessions of its engine do, if there was no room for it there, or after a failure.
  BackendInfo backend() const;

 private:
  std::unique_ptr<host::BatchState> state_;
};

}  // namespace bonsai
