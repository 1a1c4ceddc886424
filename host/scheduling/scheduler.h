// Continuous batching (Orca, OSDI 2022) over a paged KV cache (arXiv:2309.06180) with chunked prompts
// (arXiv:2308.16369): which tokens of which requests make up the next batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "host/scheduling/block_pool.h"
#include "host/scheduling/radix_tree.h"

namespace bonsai::host {

using RequestId = uint64_t;

struct SchedulerConfig {
  uint32_t context = 0;   // most tokens of a request
  uint32_t n_blocks = 0;  // in the KV cache
  uint32_t block_size = 32;
  uint32_t batch_tokens = 512;  // most in a step; at least max_sequences
  uint32_t max_sequences = 16;  // requests in a step
  uint32_t max_outputs = 0;     // rows of logits in a step, guesses apart; at least max_sequences; 0: as many
  bool share_prefixes = true;   // what one request has computed serves others that begin alike, and later ones
  bool copy_blocks = true;  // also the beginning of a block: the device can copy blocks. To copy one costs less than
                            // to compute a single token (docs/scheduling.md), so it is done for whatever agrees
};

struct ScheduledRequest {
  RequestId id = 0;  // of its own
  std::vector<int32_t> tokens;
  int32_t priority = 0;  // the higher goes first; among equals the one that came first
  // Logits are wanted behind this token (an index) and all that follow it, so that these are computed whatever is there
  // of them. Beyond the last, as it is here: behind the last.
  uint32_t logits_from = ~0u;
};

// What a request may go on with behind its last token: nobody knows yet.
struct Guess {
  RequestId id = 0;
  std::vector<int32_t> tokens;
};

// One batch. First the blocks are copied, in order, then the tokens run.
struct Step {
  struct Row {  // of the block table: one request
    RequestId id = 0;
    uint32_t n_tokens = 0;
    bool wants_next = false;  // its last token is the request's last: append() follows, or finish()
    uint32_t last_token = 0;  // index of that in the batch
    uint32_t n_guesses = 0;   // tokens behind it that are guessed
    uint32_t n_outputs = 0;   // logits are wanted behind the last so many of these, guesses included

    uint32_t first_output() const { return last_token + n_guesses + 1 - n_outputs; }
    // Outputs that are handed out for their own sake, ahead of those that choose what comes next.
    uint32_t n_scored() const { return wants_next ? n_outputs - 1 - n_guesses : n_outputs; }
  };
  std::vector<Row> rows;
  std::vector<uint32_t> copy_from, copy_to;
  std::vector<int32_t> tokens;        // those of the first row, then those of the second and so on
  std::vector<uint32_t> positions;    // as many as tokens
  std::vector<uint32_t> sequences;    // as many as tokens: rows
  std::vector<uint32_t> block_table;  // (rows, blocks_per_sequence)
  uint32_t blocks_per_sequence = 0;
};

struct SchedulerCounts {
  uint64_t steps = 0;
  uint64_t computed_tokens = 0;  // that ran, again where they ran again
  uint64_t reused_tokens = 0;    // that did not run, as their keys and values were there
  uint64_t preemptions = 0;
  uint64_t matches = 0;  // looks at all tokens of a waiting request, for what is there of them
};

// Promises, each of which a test looks at (tests/host/scheduling):
// - A step has every request's next token, as long as it is decoding and blocks suffice; then pieces of prompts, up to
//   batch_tokens. The prompt that ranks first gets half of what is left for prompts or more, the others equal parts.
// - Requests are ranked by priority, then by arrival. Where blocks or places run out, the one that ranks last is
//   preempted: it waits at its rank, and its keys and values stay for as long as nobody needs the blocks. Nobody is
//   preempted for one that could not start even then. Of equal priority, none is overtaken for good: the first in rank
//   is in every step.
// - A request that can never fit is refused; any other comes to its end, whatever else there is.
// - No block is written that a second request reads.
// - Logits that a request wants are handed out once each, in the order of its tokens, and not more than max_outputs of
//   all requests in a step.
// - Guesses take nothing from anybody: they get what a step has left of batch_tokens, blocks that nobody needs and that
//   hold nothing worth keeping, and those of a wrong guess are given back at once.
// One thread at a time. The same calls give the same steps.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerConfig &config);
  ~Scheduler();
  Scheduler(const Scheduler &) = delete;
  Scheduler &operator=(const Scheduler &) = delete;

  // Most tokens that a request can hold: the context, or the KV cache if that is smaller.
  uint32_t sequence_limit() const;

  // Puts a request into the queue. Errors: no tokens at all; more than fit with one that follows them.
  Result<void> submit(ScheduledRequest request);

  // Chooses the next step. Empty (no rows) only if there is nothing to do. Every request that wanted its next token has
  // had its append() or finish() before. Valid until the next call of plan().
  const Step &plan();

  // Adds guesses to the planned step, in this order and as far as there is place; none otherwise. The step stays the
  // same in all else. Preconditions: each names another row that wants its next token; called once at most.
  const Step &guess(std::span<const Guess> guesses);

  // The planned step has run; nothing else was called since.
  void commit();

  // The token that follows a request's last. True: it was guessed, so that it has run and its logits are there, and the
  // next one may be appended, too.
  bool append(RequestId id, int32_t token);

  // The request has ended, or is not wanted any more. What was computed of it stays for others.
  void finish(RequestId id);

  std::span<const int32_t> tokens(RequestId id) const;
  uint32_t room(RequestId id) const;  // tokens that can follow
  uint32_t n_running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t n_waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  const SchedulerConfig &config() const { return config_; }
  const SchedulerCounts &counts() const { return counts_; }
  const BlockPool &pool() const { return pool_; }
  const RadixTree &tree() const { return tree_; }
  void visit_tables(const std::function<void(RequestId, std::span<const uint32_t> blocks)> &visitor) const;

 private:
  friend struct SchedulerSaboteur;  // of the tests, which show that they notice what goes wrong
  struct Sequence;
  struct ByRank {
    using is_transparent = void;
    bool operator()(const Sequence *a, const Sequence *b) const;
  };
  using Ranked = std::set<Sequence *, ByRank>;
  struct Admission;

  uint32_t blocks_for(uint32_t n_tokens) const;
  void admit();
  bool has_no_seat(const Sequence &candidate) const;
  Admission find_beginning(const Sequence &candidate);
  bool waits_for_twin(Sequence &candidate, const Admission &admission) const;
  bool still_waits_for_twin(const Sequence &candidate) const;
  uint32_t n_blocks_of_both(const Sequence &candidate, const Sequence &other, uint32_t n_known) const;
  bool make_place(const Sequence &candidate, const Admission &admission);
  bool has_place_beside(Ranked::const_iterator end, const Admission &admission) const;
  uint64_t n_left_by(Ranked::const_iterator end, const Admission &admission) const;
  void start(Sequence &sequence, const Admission &admission);
  bool has_block_for_next(Sequence &sequence);
  void plan_prompts(uint32_t n_decoding);
  void lay_out();
  void add_row(Sequence &sequence);
  void fill_block_table();
  uint32_t extend_for(Sequence &sequence, uint32_t n_guesses);
  void drop_guesses(Sequence &sequence);
  void take_block(Sequence &sequence);
  void share_computed_blocks(Sequence &sequence);
  void give_up_blocks(Sequence &sequence);
  void preempt(Sequence &sequence);

  const SchedulerConfig config_;
  BlockPool pool_;
  RadixTree tree_;
  std::map<RequestId, std::unique_ptr<Sequence>> sequences_;
  Ranked waiting_, running_;  // every sequence is in one of them
  uint64_t n_submitted_ = 0;
  uint64_t n_plans_ = 0;
  Step step_;
  SchedulerCounts counts_;
};

}  // namespace bonsai::host
