#include "host/engine/batch_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/available_cores.h"
#include "host/engine/batch_request.h"
#include "host/speculation/lookup_drafter.h"

namespace bonsai::host {
namespace {

constexpr uint32_t kDefaultKvTokens = 16384;
constexpr uint32_t kMostBatchTokens = 1u << 20;  // what the CPU backend takes, which may have to take over

BatchOptions checked(BatchOptions options, uint32_t context) {
  if (options.max_sequences == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "max_sequences: expected at least 1, found 0");
  if (options.batch_tokens < options.max_sequences)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("batch_tokens: expected at least one for each of max_sequences ({}), found {}",
                                  options.max_sequences, options.batch_tokens));
  if (options.batch_tokens > kMostBatchTokens)
    throw EngineError(ErrorKind::kInvalidArgument, fmt::format("batch_tokens: expected at most {}, found {}",
                                                               kMostBatchTokens, options.batch_tokens));
  if (options.kv_tokens == 1)
    throw EngineError(ErrorKind::kInvalidArgument,
                      "kv_tokens: expected 0 or at least 2, a prompt's and one behind it, found 1");
  if (options.kv_tokens == 0) {
    const uint64_t all = uint64_t{options.max_sequences} * context;
    options.kv_tokens = std::max(context, static_cast<uint32_t>(std::min<uint64_t>(all, kDefaultKvTokens)));
  }
  return options;
}

// Of a step: one for each text, and beside them those of guesses or of prompts whose tokens are scored.
uint32_t most_outputs(const BatchOptions &options) {
  constexpr uint32_t kScoredAtOnce = 32;
  static_assert(kScoredAtOnce >= PassCosts::kMostTokens);
  return std::min(options.batch_tokens, options.max_sequences + kScoredAtOnce);
}

uint32_t usable_threads(const EngineOptions &options) {
  const auto n_cores = static_cast<uint32_t>(available_cores());
  return options.threads == 0 ? n_cores : std::min(options.threads, n_cores);
}

void check_scoring(const GenerateOptions &options, size_t n_prompt) {
  if (!options.prompt_logprobs_from) return;
  if (options.logprobs == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "prompt_logprobs_from: expected with logprobs only");
  if (*options.prompt_logprobs_from >= n_prompt)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("prompt_logprobs_from: expected one of the prompt's {} tokens, found {}", n_prompt,
                                  *options.prompt_logprobs_from));
}

uint32_t blocks_for(uint64_t n_tokens, uint32_t block_size) {
  return static_cast<uint32_t>((n_tokens + block_size - 1) / block_size);
}

}  // namespace

std::optional<Speculator> make_speculator(const EngineState &engine, const GenerateOptions &options) {
  if (!options.lookup) return std::nullopt;
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<LookupDrafter>());
  return std::make_optional<Speculator>(std::move(drafters), engine.model.config.vocab);
}

BatchState::BatchState(std::shared_ptr<EngineState> engine, const BatchOptions &options, ChooseLengths choose_lengths)
    : engine_(std::move(engine)),
      options_(checked(options, engine_->context())),
      choose_lengths_(std::move(choose_lengths)),
      context_(std::min(engine_->context(), options_.kv_tokens)),
      logprobs_threads_(usable_threads(engine_->options)) {
  run_on(engine_->home());
  outputs_.resize(most_outputs(options_));  // a size that the backend has agreed to
  publish_stats();
  try {
    thread_ = std::thread([this] {
      work();
      const std::unique_ptr<BatchState> last = std::move(own_);
    });
  } catch (const std::system_error &error) {
    throw EngineError(ErrorKind::kBackend, std::string("the thread of a batch cannot be started: ") + error.what());
  }
}

BatchState::~BatchState() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void BatchState::stop() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
  wake_.notify_one();
}

void BatchState::release(std::unique_ptr<BatchState> &state) {
  if (!state) return;
  BatchState &self = *state;
  self.stop();
  if (self.thread_.get_id() == std::this_thread::get_id()) {
    self.thread_.detach();
    self.own_ = std::move(state);
  } else {
    self.thread_.join();
    state.reset();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Where it runs

// A block is one text's. Where blocks hold more tokens than texts have, there are as many as the tokens are texts.
ExecutorConfig BatchState::executor_config(const Placement &placement) const {
  ExecutorConfig config = placement.executor_config();
  const uint32_t texts = std::min(options_.max_sequences, options_.kv_tokens / std::min(context_, config.block_size));
  config.n_blocks = std::max(blocks_for(options_.kv_tokens, config.block_size), texts);
  config.max_blocks_per_sequence = blocks_for(context_, config.block_size);
  config.max_tokens = options_.batch_tokens;
  config.max_sequences = options_.max_sequences;
  config.max_outputs = most_outputs(options_);
  return config;
}

// A new scheduler, too: the size of blocks may be another. It gets every request as far as it has come, in order.
BackendResult<void> BatchState::try_to_run_on(std::shared_ptr<Placement> placement) {
  const ExecutorConfig sizes = executor_config(*placement);
  placement->drop_reserve();  // of a session, as large as all of this may be
  auto made = placement->make_executor(sizes);
  if (!made) return tl::unexpected(std::move(made.error()));
  // Blocks are there to be copied twice over, and nothing is in them yet.
  constexpr uint32_t kFrom = 0, kTo = 1;
  BackendResult<void> copied;
  if (sizes.n_blocks > 1) copied = placement->kv_copy(**made, {&kFrom, 1}, {&kTo, 1});
  if (!copied && copied.error().status != BONSAI_UNSUPPORTED) return copied;
  auto scheduler = std::make_unique<Scheduler>(SchedulerConfig{.context = context_,
                                                               .n_blocks = sizes.n_blocks,
                                                               .block_size = sizes.block_size,
                                                               .batch_tokens = options_.batch_tokens,
                                                               .max_sequences = options_.max_sequences,
                                                               .max_outputs = sizes.max_outputs,
                                                               .share_prefixes = options_.share_prefixes,
                                                               .copy_blocks = copied.has_value()});
  for (const auto &[id, request] : requests_) hand_over(*scheduler, *request, scheduler_->tokens(id));
  pass_costs_.emplace();
  executor_ = *std::move(made);
  placement_ = std::move(placement);  // behind it: the executor that was here goes first
  replace_scheduler(std::move(scheduler));
  return {};
}

void BatchState::replace_scheduler(std::unique_ptr<Scheduler> scheduler) {
  if (scheduler_) {
    const SchedulerCounts &counts = scheduler_->counts();
    earlier_counts_.steps += counts.steps;
    earlier_counts_.computed_tokens += counts.computed_tokens;
    earlier_counts_.reused_tokens += counts.reused_tokens;
    earlier_counts_.preemptions += counts.preemptions;
  }
  scheduler_ = std::move(scheduler);
}

// Throws EngineError where neither this device nor the CPU can.
void BatchState::run_on(EngineState::Home home) {
  auto started = try_to_run_on(home.placement);
  if (!started && is_backends_fault(started.error())) {
    home.failed_over = started.error().message;
    started = try_to_run_on(engine_->fail_over(*home.placement, started.error(), EngineState::FailedTo::kStart));
  }
  value_or_throw(std::move(started));
  BackendInfo backend = describe({placement_, std::move(home.failed_over)});
  const std::lock_guard lock(mutex_);
  backend_ = std::move(backend);
}

// ---------------------------------------------------------------------------------------------------------------------
// Requests come in

std::unique_ptr<BatchState::Request> BatchState::prepare(Order order) {
  engine_->check_tokens(order.tokens);
  if (order.tokens.size() >= context_)
    throw EngineError(
        ErrorKind::kContextFull,
        fmt::format("context full: a prompt of {} tokens leaves no room to continue (context {}, KV cache "
                    "for {})",
                    order.tokens.size(), engine_->context(), options_.kv_tokens));
  check_scoring(order.options, order.tokens.size());
  return std::make_unique<Request>(*engine_, std::move(order), is_stop_requested_);
}

void BatchState::submit(std::vector<Order> orders) {
  Requests requests;
  for (Order &order : orders) requests.emplace(requests.size(), prepare(std::move(order)));
  const std::lock_guard lock(mutex_);
  if (is_ending_)
    throw EngineError(ErrorKind::kInvalidArgument, "the batch engine is being destroyed: it takes no more requests");
  stats_.waiting += static_cast<uint32_t>(requests.size());
  while (!requests.empty()) {
    auto node = requests.extract(requests.begin());
    node.key() = node.mapped()->id = n_requests_++;
    arrived_.insert(std::move(node));
  }
  wake_.notify_one();
}

void BatchState::check_may_wait() const {
  if (thread_.get_id() == std::this_thread::get_id())
    throw EngineError(ErrorKind::kInvalidArgument,
                      "a callback of a batch may start texts, but not wait for them: all of them wait for it");
}

BatchStats BatchState::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

BackendInfo BatchState::backend() const {
  const std::lock_guard lock(mutex_);
  return backend_;
}

// ---------------------------------------------------------------------------------------------------------------------
// The thread

// What is thrown here is want of memory, or the like: every request ends with it, for which none is needed, and the
// thread lives on.
void BatchState::work() {
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = take_in();
      if (goes_on) end_cancelled();
      if (goes_on && !requests_.empty()) step();
      while (!goes_on && !requests_.empty()) end(*requests_.begin()->second, FinishReason::kCancelled);
    } catch (...) {
      abandon(std::current_exception());
    }
    publish_stats();
    deliver();
  }
}

// Waits where there is nothing to do. False: it is time to stop, and nothing is left to be taken in.
bool BatchState::take_in() {
  RequestId first = 0;
  bool is_ending = false;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return is_ending_ || !arrived_.empty() || !requests_.empty(); });
    is_ending = is_ending_;
    if (arrived_.empty()) return !is_ending;
    first = arrived_.begin()->first;
    requests_.merge(arrived_);
  }
  if (is_spoilt_) restart();
  for (auto at = requests_.find(first); at != requests_.end(); ++at) {
    const Order &order = at->second->order;
    hand_over(*scheduler_, *at->second, order.tokens);
    if (order.options.cancel.stop_requested()) is_stop_requested_ = true;  // its notice may have come before it
  }
  return !is_ending;
}

// It fits: prepare() has seen to that, and room() since.
void BatchState::hand_over(Scheduler &scheduler, const Request &request, std::span<const int32_t> tokens) {
  const auto taken =
      scheduler.submit({request.id, {tokens.begin(), tokens.end()}, request.order.priority, request.logits_from()});
  assert(taken);
  static_cast<void>(taken);
}

void BatchState::end_cancelled() {
  if (!is_stop_requested_.exchange(false)) return;
  std::vector<Request *> cancelled;
  for (const auto &[id, request] : requests_)
    if (request->order.options.cancel.stop_requested()) cancelled.push_back(request.get());
  for (Request *request : cancelled) end(*request, FinishReason::kCancelled);
}

void BatchState::step() {
  const Step &step = plan();
  const auto computed = compute(step);
  if (!computed) return move_to_cpu(computed.error());
  scheduler_->commit();
  take_results(step);
}

// A step that prompts take part in has no guesses: theirs is the time until the first token.
const Step &BatchState::plan() {
  const Step &step = scheduler_->plan();
  const bool decodes = step.tokens.size() == step.rows.size() &&
                       std::all_of(step.rows.begin(), step.rows.end(), [](const auto &row) { return row.wants_next; });
  const size_t n_outputs = std::min<size_t>(outputs_.size(), PassCosts::kMostTokens);
  if (!decodes || step.tokens.size() >= n_outputs) return step;
  const std::vector<Guess> guesses = guesses_for(step, static_cast<uint32_t>(n_outputs - step.tokens.size()));
  return guesses.empty() ? step : scheduler_->guess(guesses);
}

// At most `most` tokens of all texts together. Those that have nothing to guess count, too: they would wait.
std::vector<Guess> BatchState::guesses_for(const Step &step, uint32_t most) {
  std::vector<TextChance> chances;
  for (const Step::Row &row : step.rows) {
    Request &request = *requests_.at(row.id);
    // Behind the last guess comes one more token, and none after that.
    const uint32_t n_left = std::min(scheduler_->room(row.id), request.continuation.n_left());
    const bool may_guess = request.speculator && request.first_choice && n_left > 1;
    const auto acceptance = may_guess ? request.speculator->chance() : std::nullopt;
    chances.push_back({.acceptance = acceptance.value_or(0), .most = acceptance ? n_left - 1 : 0});
  }
  const std::vector<uint32_t> lengths = choose_lengths_(chances, most, *pass_costs_);
  std::vector<Guess> guesses;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (chances[i].most == 0) continue;
    const auto tokens = requests_.at(step.rows[i].id)->speculator->propose_so_many(lengths[i]);
    if (!tokens.empty()) guesses.push_back({step.rows[i].id, {tokens.begin(), tokens.end()}});
  }
  return guesses;
}

BackendResult<void> BatchState::compute(const Step &step) {
  if (!step.copy_from.empty()) {
    auto copied = placement_->kv_copy(*executor_, step.copy_from, step.copy_to);
    if (!copied) return copied;
  }
  size_t n_outputs = 0;
  for (const Step::Row &row : step.rows) {
    if (row.n_outputs == 0) continue;
    Request &request = *requests_.at(row.id);
    // As in generate.cpp, the first comes whole, with those that are scored before it, and what is wanted behind a
    // guess depends on it.
    const bool is_first = !request.first_choice;
    const Selection selection = is_first ? Selection() : request.continuation.selection(executor_->selection_limits());
    for (uint32_t i = 0; i < row.n_outputs; ++i) {
      Output &output = outputs_[n_outputs++];
      output.token = row.first_output() + i;
      output.select(i == 0 || selection.is_lasting ? selection : Selection());
    }
  }
  Batch batch;
  batch.tokens = step.tokens;
  batch.positions = step.positions;
  batch.sequences = step.sequences;
  batch.block_table = step.block_table;
  batch.n_sequences = static_cast<uint32_t>(step.rows.size());
  batch.blocks_per_sequence = step.blocks_per_sequence;
  return forward(batch, std::span(outputs_).first(n_outputs));
}

// Learns what steps cost that could have guesses.
BackendResult<void> BatchState::forward(const Batch &batch, std::span<Output> outputs) {
  const auto start = Clock::now();
  auto done = placement_->forward(*executor_, batch, outputs);
  if (done && batch.tokens.size() == outputs.size())
    pass_costs_->add(static_cast<uint32_t>(outputs.size()), seconds_between(start, Clock::now()));
  return done;
}

// After the stats were published, so that whoever has a result finds it counted there; and what the request's callback
// holds is gone by then.
void BatchState::deliver() {
  for (auto &[id, request] : ended_) {
    const BatchEngine::DoneCallback done = std::move(request->order.done);
    const std::exception_ptr error = request->error;
    Generation generation = std::move(request->generation);
    request.reset();
    if (done) done(std::move(generation), error);
  }
  ended_.clear();
}

// All requests go over with what they have said, and compute their keys and values anew there. Where that cannot be,
// they fail together; so will those that come later, unless the device recovers.
void BatchState::move_to_cpu(const BackendError &error) {
  try {
    if (!is_backends_fault(error)) throw EngineError(ErrorKind::kBackend, error.message);
    run_on({engine_->fail_over(*placement_, error), error.message});
    for (const auto &[id, request] : requests_) request->continuation.stats().failed_over = error.message;
  } catch (...) {
    abandon(std::current_exception());
  }
}

// Every request fails, and nothing of what they computed is kept: nobody knows how far the device, or the scheduler,
// has come.
void BatchState::abandon(const std::exception_ptr &error) noexcept {
  for (auto &[id, request] : requests_) request->error = error;
  ended_.merge(requests_);
  is_spoilt_ = true;
}

void BatchState::restart() {
  replace_scheduler(std::make_unique<Scheduler>(scheduler_->config()));
  is_spoilt_ = false;
}

void BatchState::publish_stats() {
  const SchedulerCounts &counts = scheduler_->counts();
  const BlockPool &pool = scheduler_->pool();
  const std::lock_guard lock(mutex_);
  stats_ = {.running = is_spoilt_ ? 0 : scheduler_->n_running(),
            .waiting = (is_spoilt_ ? 0 : scheduler_->n_waiting()) + static_cast<uint32_t>(arrived_.size()),
            .steps = earlier_counts_.steps + counts.steps,
            .computed_tokens = earlier_counts_.computed_tokens + counts.computed_tokens,
            .reused_tokens = earlier_counts_.reused_tokens + counts.reused_tokens,
            .preemptions = earlier_counts_.preemptions + counts.preemptions,
            .kv_blocks = pool.size(),
            .kv_blocks_free = is_spoilt_ ? pool.size() : pool.n_free(),
            .kv_blocks_kept = is_spoilt_ ? 0 : scheduler_->tree().n_idle(),
            .kv_block_tokens = scheduler_->config().block_size,
            .context = context_,
            .memory_bytes = executor_->memory_bytes()};
}

}  // namespace bonsai::host
