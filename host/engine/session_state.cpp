#include "host/engine/session_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "host/engine/model_drafter.h"

namespace bonsai::host {
namespace {

Row row_of(Output &output) { return {.logits = std::move(output.logits), .top = std::move(output.top)}; }

}  // namespace

SessionState::SessionState(std::shared_ptr<EngineState> engine) : engine_(std::move(engine)) {
  run_on(engine_->placement());
}

SessionState::~SessionState() { placement_->give_back(std::move(executor_)); }

void SessionState::drop_ahead() {
  ahead_.clear();
  if (executor_ && executor_->n_in_flight() > 0) placement_->drop(*executor_);
}

// Takes an executor of `placement`, and gives back the one at hand. On failure the session stays where it is, or goes
// over to the CPU if it is nowhere yet.
void SessionState::run_on(std::shared_ptr<Placement> placement) {
  auto executor = placement->take_executor();
  if (!executor && !executor_ && is_backends_fault(executor.error())) {
    placement = engine_->fail_over(*placement, executor.error(), EngineState::FailedTo::kStart);
    executor = placement->take_executor();
  }
  LentExecutor taken = value_or_throw(std::move(executor));
  if (executor_) placement_->give_back(std::move(executor_));
  placement_ = std::move(placement);
  executor_ = std::move(taken);
  n_computed_ = 0;
  // The executor's pool belongs to this sequence alone: its n-th block is the pool's n-th.
  block_table_.resize(executor_->config().n_blocks);
  std::iota(block_table_.begin(), block_table_.end(), 0u);
}

void SessionState::fail_over(const BackendError &error) {
  drop_ahead();
  if (!is_backends_fault(error)) throw EngineError(ErrorKind::kBackend, error.message);
  run_on(engine_->fail_over(*placement_, error));
  failed_over_ = error.message;
}

void SessionState::append_text(std::string_view text) {
  const std::vector<int32_t> tokens = engine_->encode(text, tokens_.empty());
  if (!tokens.empty()) append_tokens(tokens);
}

void SessionState::append_tokens(std::span<const int32_t> tokens) {
  engine_->check_tokens(tokens);
  if (tokens.size() > room())
    throw EngineError(ErrorKind::kContextFull,
                      fmt::format("context full: {} tokens to add, room for {} (context {}, used {})", tokens.size(),
                                  room(), engine_->context(), length()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

// The row at hand belongs to the old end: the new last token is run again.
void SessionState::truncate(uint32_t length) {
  if (length >= tokens_.size()) return;
  tokens_.resize(length);
  drop_ahead();
  n_computed_ = std::min(n_computed_, length > 0 ? length - 1 : 0);
}

bool SessionState::compute(const std::stop_token &cancel, std::span<const int32_t> proposals, const Ask &ask,
                           bool goes_on) {
  // What was selected for one choice says nothing to another: the last token is run again.
  if (n_pending() == 0 && !row_.is_whole()) --n_computed_;
  while (n_pending() > 0) {
    if (cancel.stop_requested()) return false;
    const uint32_t most = most_in_piece(cancel);
    if (ahead_.goes_on_with(tokens_[n_computed_])) {
      row_ = ahead_.take();
      ++n_computed_;
    } else if (n_pending() + proposals.size() <= most) {
      run_last(proposals, ask, goes_on);
    } else {
      forward(next(std::min(n_pending() - 1, most)), {});
    }
  }
  return true;
}

// On a processor of this host a whole batch may take half a minute, and more in plain code. A quarter of it is as fast
// on the CPU backend.
uint32_t SessionState::most_in_piece(const std::stop_token &cancel) const {
  constexpr uint32_t kSoonDone = 128;
  const uint32_t most = engine_->sizes.max_tokens;
  const bool may_be_split = placement_->is_deterministic() && !placement_->runs_elsewhere();
  return cancel.stop_possible() && may_be_split ? std::min(most, kSoonDone) : most;
}

uint32_t SessionState::most_proposals() const {
  return std::min({engine_->sizes.max_tokens - 1, engine_->sizes.max_outputs - 1, room()});
}

// What is wanted behind the proposals depends on them, but for a selection that lasts.
bool SessionState::run_last(std::span<const int32_t> proposals, const Ask &ask, bool goes_on) {
  const Selection selection = ask ? ask(executor_->selection_limits()) : Selection();
  if (proposals.empty() && is_chained(selection, goes_on)) return run_chained(selection, goes_on);
  std::vector<int32_t> batch(tokens_.begin() + n_computed_, tokens_.end());
  const auto last = static_cast<uint32_t>(batch.size() - 1);
  batch.insert(batch.end(), proposals.begin(), proposals.end());
  std::vector<Output> rows(1 + proposals.size());
  for (uint32_t i = 0; i < rows.size(); ++i) {
    rows[i].token = last + i;
    if (i == 0 || selection.is_lasting) rows[i].select(selection);
  }
  rows[0].logits = std::move(row_.logits);  // for its memory
  const bool done = forward(batch, rows);
  row_ = row_of(rows[0]);
  if (!done || proposals.empty()) return done;
  n_computed_ -= static_cast<uint32_t>(proposals.size());
  std::vector<Row> ahead;
  for (Output &row : std::span(rows).subspan(1)) ahead.push_back(row_of(row));
  ahead_.set(proposals, std::move(ahead));
  return true;
}

// Whether the text goes on with the largest logit, whatever that is; and with what is in flight, if something is.
bool SessionState::is_chained(const Selection &selection, bool goes_on) const {
  if (n_pending() != 1 || selection.k != 1 || !selection.is_lasting) return false;
  if (executor_->n_in_flight() > 0) return !row_.is_whole() && row_.top.ids.front() == tokens_.back();
  return goes_on && placement_->runs_elsewhere() && executor_->chains();
}

bool SessionState::run_chained(const Selection &selection, bool goes_on) {
  auto row = chained_row(selection, goes_on);
  if (!row) {
    fail_over(row.error());
    return false;
  }
  row_.top = std::move(row->top);
  ++n_computed_;
  return true;
}

BackendResult<Output> SessionState::chained_row(const Selection &selection, bool goes_on) {
  BackendResult<void> submitted;
  if (executor_->n_in_flight() == 0) submitted = submit(tokens_.back(), n_computed_, selection);
  if (submitted && goes_on) submitted = submit(BONSAI_TOKEN_FROM_OUTPUT(0), n_computed_ + 1, selection);
  if (!submitted) return tl::unexpected(submitted.error());
  return placement_->wait(*executor_);
}

BackendResult<void> SessionState::submit(int32_t token, uint32_t position, const Selection &selection) {
  constexpr uint32_t kSequence = 0;
  Batch batch;
  batch.tokens = {&token, 1};
  batch.positions = {&position, 1};
  batch.sequences = {&kSequence, 1};
  batch.block_table = block_table_;
  batch.blocks_per_sequence = static_cast<uint32_t>(block_table_.size());
  Output output;
  output.select(selection);
  return placement_->submit(*executor_, batch, std::move(output));
}

SessionState &SessionState::draft_session(const std::shared_ptr<EngineState> &engine) {
  if (!draft_ || draft_->engine_ != engine) {
    check_same_vocabulary(*engine_, *engine);
    draft_ = std::make_unique<SessionState>(engine);
  }
  return *draft_;
}

void SessionState::evaluate(std::span<const int32_t> tokens, const LogitsCallback &callback) {
  if (!callback) throw EngineError(ErrorKind::kInvalidArgument, "evaluate: expected a callback, found none");
  if (n_pending() > 0) compute();
  const uint32_t start = length();
  append_tokens(tokens);
  std::vector<Output> rows;
  for (size_t first = 0; first < tokens.size(); first += rows.size()) {
    rows.resize(std::min<size_t>(tokens.size() - first, engine_->sizes.max_outputs));
    for (size_t i = 0; i < rows.size(); ++i) rows[i].token = static_cast<uint32_t>(i);
    do {
      fill_cache(start + static_cast<uint32_t>(first));
    } while (!forward(next(static_cast<uint32_t>(rows.size())), rows));
    row_ = {.logits = rows.back().logits, .top = {}};  // before the callback, which may throw
    for (size_t i = 0; i < rows.size(); ++i) callback(first + i, rows[i].logits);
  }
}

void SessionState::fill_cache(uint32_t end) {
  while (n_computed_ < end) forward(next(std::min(end - n_computed_, engine_->sizes.max_tokens)), {});
}

bool SessionState::forward(std::span<const int32_t> tokens, std::span<Output> outputs) {
  const auto n = static_cast<uint32_t>(tokens.size());
  drop_ahead();
  std::vector<uint32_t> positions(n);
  std::iota(positions.begin(), positions.end(), n_computed_);
  const std::vector<uint32_t> sequences(n, 0);
  Batch batch;
  batch.tokens = tokens;
  batch.positions = positions;
  batch.sequences = sequences;
  batch.block_table = block_table_;
  batch.blocks_per_sequence = static_cast<uint32_t>(block_table_.size());
  const auto done = placement_->forward(*executor_, batch, outputs);
  if (done) {
    n_computed_ += n;
    return true;
  }
  fail_over(done.error());
  return false;
}

}  // namespace bonsai::host
