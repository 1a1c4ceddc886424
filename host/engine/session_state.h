// One sequence: its tokens, which of them the KV cache holds, and the row of logits behind the last. Where its device
// fails, it goes on with the CPU, which computes the cache anew from the tokens.
#pragma once

#include <bonsai/engine.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "host/engine/engine_state.h"
#include "host/engine/exclusive.h"
#include "host/speculation/ahead.h"

namespace bonsai::host {

// All functions throw EngineError.
class SessionState {
 public:
  explicit SessionState(std::shared_ptr<EngineState> engine);
  ~SessionState();
  SessionState(const SessionState &) = delete;
  SessionState &operator=(const SessionState &) = delete;

  const EngineState &engine() const { return *engine_; }
  // Held by what calls back. Whoever changes the session for a caller has to find it idle.
  Exclusive<SessionState> &exclusive() { return exclusive_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  uint32_t length() const { return static_cast<uint32_t>(tokens_.size()); }
  uint32_t room() const { return engine_->context() - length(); }

  void append_text(std::string_view text);
  void append_tokens(std::span<const int32_t> tokens);
  void truncate(uint32_t length);

  // Writes the tokens, and their keys and values as far as they are computed and the backend hands them out; and takes
  // them up again in the place of what is here (session_file.h, session_save.cpp). The note that was saved with them,
  // or none, is shown to `read_note` once everything else is right and before anything changes: it may throw.
  using NoteReader = std::function<void(std::string_view note)>;
  void save(const std::string &path, std::string_view note = {});
  void load(const std::string &path, const NoteReader &read_note = {});

  // How many tokens compute() would run.
  uint32_t n_pending() const { return length() - n_computed_; }

  // Says what is wanted of the row behind the last token, of a device that can select so much. Called before each pass
  // that makes it: again where a device fails, and another takes over.
  using Ask = std::function<Selection(const SelectionLimits &)>;

  // Brings the KV cache and the row up to the last token, in pieces of a batch. False if cancelled between two; what
  // was done by then stays. The last pass also runs the `proposals`, tokens that may be appended next: those that are
  // will then cost nothing. Without `ask` the whole row is wanted. `goes_on`: the token that follows will be run, too,
  // if nothing ends the text; a device that chooses it by itself then begins with that at once. Preconditions: the
  // session is not empty; there are at most most_proposals(), and room for one more token if it goes on.
  bool compute(const std::stop_token &cancel = {}, std::span<const int32_t> proposals = {}, const Ask &ask = {},
               bool goes_on = false);
  uint32_t most_proposals() const;
  // compute() would find everything computed ahead by an earlier call.
  bool is_ahead() const { return n_pending() == 1 && ahead_.goes_on_with(tokens_.back()); }
  // Forgets what was computed ahead, and waits for what is just being.
  void drop_ahead();

  // Why the sequence left its device for the CPU; empty: it did not.
  const std::string &failed_over() const { return failed_over_; }

  // Of the device at hand.
  PassCosts &pass_costs() { return placement_->pass_costs(); }

  // The session in which `engine` drafts for this one: kept, as it holds most of the text from one generation to the
  // next. Throws EngineError where its vocabulary is another.
  SessionState &draft_session(const std::shared_ptr<EngineState> &engine);

  // What is behind the last token. Precondition: compute() returned true and nothing was appended or truncated since.
  const Row &row() const { return row_; }

  void evaluate(std::span<const int32_t> tokens, const LogitsCallback &callback);

 private:
  void run_on(std::shared_ptr<Placement> placement);
  void fail_over(const BackendError &error);

  // Tokens that compute() runs between two looks at `cancel`.
  uint32_t most_in_piece(const std::stop_token &cancel) const;

  // Computes tokens [n_computed_, end) without logits.
  void fill_cache(uint32_t end);

  // Runs all that is pending and the proposals, which must fit into one batch together. False as forward() is.
  bool run_last(std::span<const int32_t> proposals, const Ask &ask, bool goes_on);

  // Runs the last token, unless an earlier call did so ahead of time, and if it goes on begins with the next, which is
  // what the device selects. False as forward() is.
  bool run_chained(const Selection &selection, bool goes_on);
  BackendResult<Output> chained_row(const Selection &selection, bool goes_on);
  BackendResult<void> submit(int32_t token, uint32_t position, const Selection &selection);
  bool is_chained(const Selection &selection, bool goes_on) const;

  // Runs the next tokens, with rows for those that `outputs` name by their place in the batch. False if the device
  // failed and the session went over to the CPU: all its tokens are pending then.
  bool forward(std::span<const int32_t> tokens, std::span<Output> outputs);
  // That many of the session's own, from the first that is pending on.
  std::span<const int32_t> next(uint32_t n) const { return std::span(tokens_).subspan(n_computed_, n); }

  bool import_cache(uint32_t n_tokens, std::span<const std::byte> cache);

  Exclusive<SessionState> exclusive_{"session"};
  std::shared_ptr<EngineState> engine_;
  std::shared_ptr<Placement> placement_;
  LentExecutor executor_;  // from placement_
  std::vector<uint32_t> block_table_;
  std::vector<int32_t> tokens_;
  uint32_t n_computed_ = 0;  // tokens whose keys and values are in the cache
  Row row_;                  // of the last token once nothing is pending
  Ahead ahead_;              // continues the tokens that were computed
  std::string failed_over_;
  std::unique_ptr<SessionState> draft_;
};

// The loop behind Session::generate(). `draft`: the engine of GenerateOptions::draft, or null.
Generation generate(SessionState &session, const GenerateOptions &options, const std::shared_ptr<EngineState> &draft,
                    const TextCallback &callback);

}  // namespace bonsai::host
