// The public API: a thin object over BatchState.
#include <bonsai/batch_engine.h>

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

#include "host/engine/batch_state.h"

namespace bonsai {

BatchEngine::BatchEngine(const Engine &engine, const BatchOptions &options)
    : state_(std::make_unique<host::BatchState>(engine.state_, options)) {}
BatchEngine::BatchEngine(BatchEngine &&) noexcept = default;
BatchEngine &BatchEngine::operator=(BatchEngine &&other) noexcept {
  if (this == &other) return *this;
  host::BatchState::release(state_);
  state_ = std::move(other.state_);
  return *this;
}
BatchEngine::~BatchEngine() { host::BatchState::release(state_); }

std::future<Generation> BatchEngine::submit(std::string_view prompt, const GenerateOptions &options,
                                            const TextCallback &callback, int32_t priority) {
  return submit_tokens(state_->engine().encode(prompt, true), options, callback, priority);
}

std::future<Generation> BatchEngine::submit_tokens(std::span<const int32_t> tokens, const GenerateOptions &options,
                                                   const TextCallback &callback, int32_t priority) {
  // The future is taken last: a promise that ends before one tells it so, for which there may be no memory.
  const auto result = std::make_shared<std::promise<Generation>>();
  const auto done = [result](Generation generation, const std::exception_ptr &error) {
    error ? result->set_exception(error) : result->set_value(std::move(generation));
  };
  start_tokens(tokens, options, callback, done, priority);
  return result->get_future();
}

void BatchEngine::start_tokens(std::span<const int32_t> tokens, const GenerateOptions &options,
                               const TextCallback &callback, const DoneCallback &done, int32_t priority) {
  std::vector<host::BatchState::Order> orders;
  orders.push_back({{tokens.begin(), tokens.end()}, options, callback, priority, done});
  state_->submit(std::move(orders));
}

std::vector<Generation> BatchEngine::generate(std::span<const std::string> prompts, const GenerateOptions &options) {
  std::vector<std::vector<int32_t>> tokens;
  for (const std::string &prompt : prompts) tokens.push_back(state_->engine().encode(prompt, true));
  return generate_tokens(tokens, options);
}

namespace {

// What has come of a list of requests, which end in any order.
class Outcomes {
 public:
  explicit Outcomes(size_t n) : n_left_(n), generations_(n) {}

  void add(size_t index, Generation generation, const std::exception_ptr &error) {
    const std::lock_guard lock(mutex_);
    generations_[index] = std::move(generation);
    if (error && !error_) error_ = error;
    if (--n_left_ == 0) ended_.notify_all();
  }

  // All of them, or throws the first error.
  std::vector<Generation> wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return n_left_ == 0; });
    if (error_) std::rethrow_exception(error_);
    return std::move(generations_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  size_t n_left_;
  std::vector<Generation> generations_;
  std::exception_ptr error_;
};

}  // namespace

// One that fails stops the others at once, wherever it is in the list: nobody will read them.
std::vector<Generation> BatchEngine::generate_tokens(std::span<const std::vector<int32_t>> prompts,
                                                     const GenerateOptions &options) {
  state_->check_may_wait();
  std::stop_source stop;
  const std::stop_callback with_callers(options.cancel, [&stop] { stop.request_stop(); });
  GenerateOptions stoppable = options;
  stoppable.cancel = stop.get_token();
  const auto outcomes = std::make_shared<Outcomes>(prompts.size());
  std::vector<host::BatchState::Order> orders;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto done = [stop, outcomes, i](Generation generation, const std::exception_ptr &error) mutable {
      if (error) stop.request_stop();
      outcomes->add(i, std::move(generation), error);
    };
    orders.push_back({prompts[i], stoppable, {}, 0, done});
  }
  state_->submit(std::move(orders));
  return outcomes->wait();
}

void BatchEngine::read_grammar(const GenerateOptions &options) const {
  const host::EngineState &engine = state_->engine();
  engine.constraints.compile(options, engine.require_tokenizer(), engine.model.config.vocab);
}
bool BatchEngine::knows_grammar(const GenerateOptions &options) const {
  return state_->engine().constraints.knows(options);
}
BatchStats BatchEngine::stats() const { return state_->stats(); }
BackendInfo BatchEngine::backend() const { return state_->backend(); }

}  // namespace bonsai
