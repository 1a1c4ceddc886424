// The public API: a thin object over BatchState.
#include <bonsai/batch_engine.h>

#include <exception>
#include <future>
#include <memory>
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
  std::vector<host::BatchState::Order> orders;
  orders.push_back({{tokens.begin(), tokens.end()}, options, callback, priority});
  return std::move(state_->submit(std::move(orders)).front());
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

// One that fails stops the others at once, wherever it is in the list: nobody will read them.
std::vector<Generation> BatchEngine::generate_tokens(std::span<const std::vector<int32_t>> prompts,
                                                     const GenerateOptions &options) {
  std::stop_source stop;
  const std::stop_callback with_callers(options.cancel, [&stop] { stop.request_stop(); });
  GenerateOptions stoppable = options;
  stoppable.cancel = stop.get_token();
  std::vector<host::BatchState::Order> orders;
  std::vector<std::future<Generation>> results;
  for (const std::vector<int32_t> &prompt : prompts) {
    const auto result = std::make_shared<std::promise<Generation>>();
    results.push_back(result->get_future());
    const auto done = [stop, result](Generation generation, const std::exception_ptr &error) mutable {
      if (!error) return result->set_value(std::move(generation));
      stop.request_stop();
      result->set_exception(error);
    };
    orders.push_back({prompt, stoppable, {}, 0, done});
  }
  std::vector<Generation> generations(prompts.size());
  state_->submit(std::move(orders));
  std::exception_ptr failed;
  for (size_t i = 0; i < results.size(); ++i) {
    try {
      generations[i] = results[i].get();
    } catch (...) {
      if (!failed) failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
  return generations;
}

BatchStats BatchEngine::stats() const { return state_->stats(); }

}  // namespace bonsai
