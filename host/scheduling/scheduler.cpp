#include "host/scheduling/scheduler.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace bonsai::host {

struct Scheduler::Sequence {
  RequestId id = 0;
  int32_t priority = 0;
  uint64_t arrival = 0;
  std::vector<int32_t> tokens;
  uint32_t logits_from = 0;   // the first token behind which logits are still wanted: the last one, if not before
  uint64_t preempted_by = 0;  // the plan that did so last; they are counted from 1
  // While it waits for a twin: that one's arrival, and how many whole blocks begin both of them. 0: for none.
  uint64_t twin = 0;
  uint32_t n_twin_blocks = 0;
  // While it runs:
  std::vector<uint32_t> blocks;     // its part of the KV cache, in order; it is one user of each
  RadixTree::Node *node = nullptr;  // of the last block that the tree holds too
  uint32_t n_shared_blocks = 0;     // the first so many, all full: nobody writes to them any more
  uint32_t n_computed = 0;          // tokens whose keys and values are in the blocks
  uint32_t n_planned = 0;           // tokens in the step that is being planned
  std::vector<int32_t> guesses;     // in the step, or behind n_computed in the blocks once it has run
  uint32_t n_right = 0;             // of these, that the text has gone on with

  uint32_t n_pending() const { return static_cast<uint32_t>(tokens.size()) - n_computed; }
  // Of the next `n` tokens, those behind which logits are wanted.
  uint32_t n_outputs(uint32_t n) const { return n_computed + n - std::min(n_computed + n, logits_from); }
  // Whether logits are wanted of more than its last token.
  bool is_scored() const { return size_t{logits_from} + 1 < tokens.size(); }
  // How many tokens come with so many rows of logits or fewer.
  uint32_t n_tokens_with(uint32_t outputs) const { return std::min(n_pending(), logits_from - n_computed + outputs); }
};

// How a waiting request could start.
struct Scheduler::Admission {
  RadixTree::Match match;
  uint32_t n_matched = 0;  // tokens in whole blocks
  uint32_t n_blocks = 0;   // that it needs beside those
};

bool Scheduler::ByRank::operator()(const Sequence *a, const Sequence *b) const {
  return a->priority != b->priority ? a->priority > b->priority : a->arrival < b->arrival;
}

Scheduler::Scheduler(const SchedulerConfig &config)
    : config_(config), pool_(config.n_blocks), tree_(pool_, config.block_size) {
  assert(config.batch_tokens >= config.max_sequences && config.max_sequences > 0);
}

Scheduler::~Scheduler() = default;

uint32_t Scheduler::sequence_limit() const {
  return static_cast<uint32_t>(std::min<uint64_t>(config_.context, uint64_t{config_.n_blocks} * config_.block_size));
}

uint32_t Scheduler::blocks_for(uint32_t n_tokens) const {
  return (n_tokens + config_.block_size - 1) / config_.block_size;
}

Result<void> Scheduler::submit(ScheduledRequest request) {
  const size_t n = request.tokens.size();
  if (n == 0) return fail("empty request: there is nothing to continue");
  if (n >= sequence_limit())
    return fail("context full: {} tokens to continue, and a request holds {} (context {}, KV cache {} blocks of {})", n,
                sequence_limit(), config_.context, config_.n_blocks, config_.block_size);
  auto sequence = std::make_unique<Sequence>();
  sequence->id = request.id;
  sequence->priority = request.priority;
  sequence->arrival = n_submitted_++;
  sequence->tokens = std::move(request.tokens);
  sequence->logits_from = std::min(request.logits_from, static_cast<uint32_t>(n) - 1);
  waiting_.insert(sequence.get());
  const bool added = sequences_.emplace(request.id, std::move(sequence)).second;
  assert(added);
  static_cast<void>(added);
  return {};
}

const Step &Scheduler::plan() {
  step_ = Step();
  ++n_plans_;
  for (Sequence *sequence : running_) {
    drop_guesses(*sequence);
    sequence->n_planned = 0;
  }
  admit();
  uint32_t n_decoding = 0;
  const std::vector<Sequence *> running(running_.begin(), running_.end());
  for (Sequence *sequence : running) {
    if (!running_.contains(sequence) || sequence->n_pending() != 1) continue;
    if (!has_block_for_next(*sequence)) continue;
    sequence->n_planned = 1;
    ++n_decoding;
  }
  plan_prompts(n_decoding);
  lay_out();
  return step_;
}

const Step &Scheduler::guess(std::span<const Guess> guesses) {
  uint32_t left = config_.batch_tokens - static_cast<uint32_t>(step_.tokens.size());
  for (const Guess &guess : guesses) {
    Sequence &sequence = *sequences_.at(guess.id);
    assert(sequence.n_planned > 0 && sequence.n_planned == sequence.n_pending() && sequence.guesses.empty());
    const uint32_t n = extend_for(sequence, std::min(left, static_cast<uint32_t>(guess.tokens.size())));
    sequence.guesses.assign(guess.tokens.begin(), guess.tokens.begin() + n);
    left -= n;
  }
  lay_out();
  return step_;
}

// Gives the sequence free blocks for so many guesses, or for as many as there are blocks and positions.
uint32_t Scheduler::extend_for(Sequence &sequence, uint32_t n_guesses) {
  const auto n_tokens = static_cast<uint32_t>(sequence.tokens.size());
  n_guesses = std::min(n_guesses, sequence_limit() - n_tokens);
  while (sequence.blocks.size() < blocks_for(n_tokens + n_guesses) && pool_.n_free() > 0) take_block(sequence);
  const auto n_slots = static_cast<uint32_t>(sequence.blocks.size()) * config_.block_size;
  return std::min(n_guesses, n_slots - n_tokens);
}

// Forgets what was not confirmed, and gives back the blocks that were taken for it.
void Scheduler::drop_guesses(Sequence &sequence) {
  sequence.guesses.clear();
  sequence.n_right = 0;
  const uint32_t n_needed = blocks_for(static_cast<uint32_t>(sequence.tokens.size()));
  for (; sequence.blocks.size() > n_needed; sequence.blocks.pop_back()) pool_.release(sequence.blocks.back());
}

// In the order of rank, as long as the next one fits: none is passed over but for the sake of its twin. One that has
// just made place for others is the first that does not fit.
void Scheduler::admit() {
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    Sequence *const candidate = *next++;
    if (candidate->preempted_by == n_plans_ || has_no_seat(*candidate)) return;
    if (still_waits_for_twin(*candidate)) continue;
    const Admission admission = find_beginning(*candidate);
    if (waits_for_twin(*candidate, admission)) continue;
    for (const uint32_t block : admission.match.blocks) pool_.share(block);  // idle no more
    if (!make_place(*candidate, admission)) {
      for (const uint32_t block : admission.match.blocks) pool_.release(block);
      return;
    }
    start(*candidate, admission);
    next = waiting_.upper_bound(candidate);  // it may be one that has made place
  }
}

// Whether all that have a place rank higher.
bool Scheduler::has_no_seat(const Sequence &candidate) const {
  return running_.size() >= config_.max_sequences && ByRank()(*running_.rbegin(), &candidate);
}

Scheduler::Admission Scheduler::find_beginning(const Sequence &candidate) {
  Admission admission;
  const auto n_tokens = static_cast<uint32_t>(candidate.tokens.size());
  if (config_.share_prefixes) {
    admission.match = tree_.match(std::span(candidate.tokens).first(candidate.logits_from));
    ++counts_.matches;
  }
  if (!config_.copy_blocks) admission.match.n_copied = 0;
  const auto n_shared = static_cast<uint32_t>(admission.match.blocks.size());
  admission.n_matched = n_shared * config_.block_size;
  admission.n_blocks = blocks_for(n_tokens) - n_shared;
  return admission;
}

// Whether a request that ranks higher is about to compute the very block that the candidate would compute next: it
// waits for that one until all blocks that begin both are there, and shares them then. But not for one whose tokens are
// scored there, which takes many steps, if its own are not.
bool Scheduler::waits_for_twin(Sequence &candidate, const Admission &admission) const {
  if (!config_.share_prefixes) return false;
  const auto end = running_.lower_bound(&candidate);
  const auto n_matched = static_cast<uint32_t>(admission.match.blocks.size());
  const auto twin = std::find_if(running_.begin(), end, [&](const Sequence *other) {
    if (other->node != admission.match.node || other->n_pending() < 2) return false;
    const uint32_t n_of_both = n_blocks_of_both(candidate, *other, n_matched);
    const bool is_slow = other->is_scored() && other->logits_from < n_of_both * config_.block_size;
    return n_of_both > n_matched && (!is_slow || candidate.is_scored());
  });
  if (twin == end) return false;
  candidate.twin = (*twin)->arrival;
  candidate.n_twin_blocks = n_blocks_of_both(candidate, **twin, n_matched);
  return true;
}

// So that its tokens are not looked at again in every step for which it waits.
bool Scheduler::still_waits_for_twin(const Sequence &candidate) const {
  return candidate.n_twin_blocks > 0 &&
         std::any_of(running_.begin(), running_.lower_bound(&candidate), [&](const Sequence *other) {
           return other->arrival == candidate.twin && other->n_shared_blocks < candidate.n_twin_blocks &&
                  other->n_pending() >= 2;
         });
}

// How many whole blocks begin both, of which so many are known. Tokens whose logits the candidate wants count for none:
// they are always computed.
uint32_t Scheduler::n_blocks_of_both(const Sequence &candidate, const Sequence &other, uint32_t n_known) const {
  const size_t n = std::min<size_t>(candidate.logits_from, other.tokens.size());
  const auto from = static_cast<std::ptrdiff_t>(n_known) * config_.block_size;
  const auto mine = candidate.tokens.begin() + from, end = candidate.tokens.begin() + static_cast<std::ptrdiff_t>(n);
  const auto parted = std::mismatch(mine, end, other.tokens.begin() + from).first;
  return n_known + static_cast<uint32_t>(parted - mine) / config_.block_size;
}

// Sees to it that the candidate can start: at the expense of those that rank lower, if need be and if that is enough.
bool Scheduler::make_place(const Sequence &candidate, const Admission &admission) {
  if (!has_place_beside(running_.lower_bound(&candidate), admission)) return false;
  while (!has_place_beside(running_.end(), admission)) preempt(**running_.rbegin());
  return true;
}

// Whether a request can start where only those run that come before `end`. Beside its own blocks there is one for each
// of them that may need one more, so that their next tokens do not drive it out at once.
bool Scheduler::has_place_beside(Ranked::const_iterator end, const Admission &admission) const {
  const uint32_t most = blocks_for(sequence_limit());
  const auto is_growing = [most](const Sequence *running) { return running->blocks.size() < most; };
  const auto n_growing = std::count_if(running_.begin(), end, is_growing);
  return std::distance(running_.begin(), end) < int64_t{config_.max_sequences} &&
         n_left_by(end, admission) >= uint64_t{admission.n_blocks} + static_cast<uint64_t>(n_growing);
}

// Blocks that are in no use where only those run that come before `end`, and a request that shares what it matches.
uint64_t Scheduler::n_left_by(Ranked::const_iterator end, const Admission &admission) const {
  if (end == running_.end()) return uint64_t{pool_.n_free()} + tree_.n_idle();
  std::vector<bool> is_used(pool_.size());
  const auto mark = [&](const std::vector<uint32_t> &blocks) {
    for (const uint32_t block : blocks) is_used[block] = true;
  };
  mark(admission.match.blocks);
  std::for_each(running_.begin(), end, [&](const Sequence *running) { mark(running->blocks); });
  return static_cast<uint64_t>(std::count(is_used.begin(), is_used.end(), false));
}

void Scheduler::start(Sequence &sequence, const Admission &admission) {
  waiting_.erase(&sequence);
  running_.insert(&sequence);
  sequence.n_twin_blocks = 0;
  const RadixTree::Match &match = admission.match;
  sequence.blocks = match.blocks;
  sequence.node = match.node;
  sequence.n_shared_blocks = static_cast<uint32_t>(match.blocks.size());
  sequence.n_computed = admission.n_matched + match.n_copied;
  while (sequence.blocks.size() < match.blocks.size() + admission.n_blocks) take_block(sequence);
  counts_.reused_tokens += sequence.n_computed;
  if (match.n_copied == 0) return;
  // The source may have been given up for one of the blocks just taken, or may be by the next request: copies run
  // before anything of this step is written, and in order.
  const uint32_t to = sequence.blocks[match.blocks.size()];
  if (to == match.copy_from) return;
  step_.copy_from.push_back(match.copy_from);
  step_.copy_to.push_back(to);
}

// Precondition: blocks are free or idle.
void Scheduler::take_block(Sequence &sequence) {
  if (pool_.n_free() == 0) {
    const bool evicted = tree_.evict();
    assert(evicted);
    static_cast<void>(evicted);
  }
  sequence.blocks.push_back(pool_.take());
}

// Sees to it that the next token has a block, at the expense of those that rank lower. False: there are none, and it is
// the sequence itself that waits.
bool Scheduler::has_block_for_next(Sequence &sequence) {
  if (sequence.n_computed < sequence.blocks.size() * config_.block_size) return true;
  while (pool_.n_free() == 0 && tree_.n_idle() == 0) {
    Sequence &last = **running_.rbegin();
    preempt(last);
    if (&last == &sequence) return false;
  }
  take_block(sequence);
  return true;
}

// The blocks of prompts are there since they started. Of the outputs, each that runs has one in any case, and the first
// in rank as many of the others as it has a use for.
void Scheduler::plan_prompts(uint32_t n_decoding) {
  std::vector<Sequence *> prompts;
  for (Sequence *sequence : running_)
    if (sequence->n_pending() > 1) prompts.push_back(sequence);
  if (prompts.empty()) return;
  uint32_t left = config_.batch_tokens - n_decoding;
  uint32_t outputs_left = std::max(config_.max_outputs, config_.max_sequences) - n_running();
  const auto extend = [&](Sequence &sequence, uint32_t n) {
    const uint32_t n_outputs = std::max(1u, sequence.n_outputs(sequence.n_planned));
    const uint32_t planned = std::min(sequence.n_planned + n, sequence.n_tokens_with(n_outputs + outputs_left));
    left -= planned - std::exchange(sequence.n_planned, planned);
    outputs_left -= std::max(1u, sequence.n_outputs(planned)) - n_outputs;
  };
  const auto n_others = static_cast<uint32_t>(prompts.size()) - 1;
  const uint32_t part = n_others == 0 ? 0 : left / 2 / n_others;
  const uint32_t part_of_first = left - n_others * part;
  for (Sequence *sequence : prompts) extend(*sequence, sequence == prompts.front() ? part_of_first : part);
  for (Sequence *sequence : prompts) extend(*sequence, left);
}

// Writes down what is planned, all but the copies.
void Scheduler::lay_out() {
  step_.rows.clear();
  step_.tokens.clear();
  step_.positions.clear();
  step_.sequences.clear();
  step_.blocks_per_sequence = 0;
  for (Sequence *sequence : running_)
    if (sequence->n_planned > 0) add_row(*sequence);
  fill_block_table();
}

void Scheduler::add_row(Sequence &sequence) {
  const auto n_guesses = static_cast<uint32_t>(sequence.guesses.size());
  const uint32_t n = sequence.n_planned + n_guesses;
  const auto own = std::span(sequence.tokens).subspan(sequence.n_computed, sequence.n_planned);
  step_.tokens.insert(step_.tokens.end(), own.begin(), own.end());
  step_.tokens.insert(step_.tokens.end(), sequence.guesses.begin(), sequence.guesses.end());
  step_.sequences.insert(step_.sequences.end(), n, static_cast<uint32_t>(step_.rows.size()));
  for (uint32_t i = 0; i < n; ++i) step_.positions.push_back(sequence.n_computed + i);
  step_.rows.push_back({.id = sequence.id,
                        .n_tokens = sequence.n_planned,
                        .wants_next = sequence.n_planned == sequence.n_pending(),
                        .last_token = static_cast<uint32_t>(step_.tokens.size()) - n_guesses - 1,
                        .n_guesses = n_guesses,
                        .n_outputs = sequence.n_outputs(sequence.n_planned) + n_guesses});
  step_.blocks_per_sequence = std::max(step_.blocks_per_sequence, blocks_for(sequence.n_computed + n));
}

void Scheduler::fill_block_table() {
  step_.block_table.assign(step_.rows.size() * step_.blocks_per_sequence, 0);
  auto to = step_.block_table.begin();
  for (const Step::Row &row : step_.rows) {
    const std::vector<uint32_t> &blocks = sequences_.at(row.id)->blocks;
    const size_t n = std::min<size_t>(blocks.size(), step_.blocks_per_sequence);
    std::copy_n(blocks.begin(), n, to);
    to += step_.blocks_per_sequence;
  }
}

void Scheduler::commit() {
  ++counts_.steps;
  counts_.computed_tokens += step_.tokens.size();
  for (const Step::Row &row : step_.rows) {
    Sequence &sequence = *sequences_.at(row.id);
    sequence.n_computed += std::exchange(sequence.n_planned, 0);
    sequence.logits_from = std::max(sequence.logits_from, sequence.n_computed);
    if (config_.share_prefixes) share_computed_blocks(sequence);
  }
}

// Full blocks become the tree's too. Where it has the same tokens from another request, that block is used, and one's
// own is free again: they hold the same.
void Scheduler::share_computed_blocks(Sequence &sequence) {
  const uint32_t size = config_.block_size;
  while ((sequence.n_shared_blocks + 1) * size <= sequence.n_computed) {
    uint32_t &block = sequence.blocks[sequence.n_shared_blocks];
    const auto tokens = std::span(sequence.tokens).subspan(size_t{sequence.n_shared_blocks} * size, size);
    sequence.node = tree_.add(sequence.node, tokens, block);
    if (sequence.node->block() != block) {
      pool_.release(block);
      block = sequence.node->block();
      pool_.share(block);
    }
    ++sequence.n_shared_blocks;
  }
}

bool Scheduler::append(RequestId id, int32_t token) {
  Sequence &sequence = *sequences_.at(id);
  assert(sequence.n_pending() == 0 && sequence.tokens.size() < sequence_limit());
  const bool is_right = sequence.n_right < sequence.guesses.size() && sequence.guesses[sequence.n_right] == token;
  sequence.tokens.push_back(token);
  if (!is_right) {
    drop_guesses(sequence);
    return false;
  }
  ++sequence.n_right;
  sequence.logits_from = ++sequence.n_computed;
  if (config_.share_prefixes) share_computed_blocks(sequence);
  return true;
}

void Scheduler::finish(RequestId id) {
  const auto found = sequences_.find(id);
  assert(found != sequences_.end());
  Sequence &sequence = *found->second;
  if (running_.erase(&sequence) > 0)
    give_up_blocks(sequence);
  else
    waiting_.erase(&sequence);
  sequences_.erase(found);
}

// What is computed stays in the tree, the unfinished block included.
void Scheduler::give_up_blocks(Sequence &sequence) {
  const uint32_t n_full = sequence.n_shared_blocks * config_.block_size;
  if (config_.share_prefixes && config_.copy_blocks) {
    const auto end = std::span(sequence.tokens).subspan(n_full, sequence.n_computed - n_full);
    tree_.add_end(sequence.node, end, end.empty() ? 0 : sequence.blocks[sequence.n_shared_blocks]);
  }
  for (const uint32_t block : sequence.blocks) pool_.release(block);
  sequence.blocks.clear();
  sequence.node = nullptr;
  sequence.guesses.clear();
  sequence.n_shared_blocks = sequence.n_computed = sequence.n_planned = sequence.n_right = 0;
}

void Scheduler::preempt(Sequence &sequence) {
  running_.erase(&sequence);
  give_up_blocks(sequence);
  waiting_.insert(&sequence);
  sequence.preempted_by = n_plans_;
  ++counts_.preemptions;
}

std::span<const int32_t> Scheduler::tokens(RequestId id) const { return sequences_.at(id)->tokens; }

uint32_t Scheduler::room(RequestId id) const {
  return sequence_limit() - static_cast<uint32_t>(sequences_.at(id)->tokens.size());
}

void Scheduler::visit_tables(const std::function<void(RequestId, std::span<const uint32_t>)> &visitor) const {
  for (const Sequence *sequence : running_) visitor(sequence->id, sequence->blocks);
}

}  // namespace bonsai::host
