// Requests that share steps: the thread that takes them in, asks the scheduler what comes next, has it computed and
// lets every request choose its next token.
#pragma once

#include <bonsai/batch_engine.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "host/engine/engine_state.h"
#include "host/sampling/logprobs.h"
#include "host/scheduling/scheduler.h"
#include "host/speculation/pass_costs.h"
#include "host/speculation/shared_lengths.h"

namespace bonsai::host {

class BatchState {
 public:
  struct Order {
    std::vector<int32_t> tokens;  // the prompt
    GenerateOptions options;
    TextCallback callback;
    int32_t priority = 0;
    BatchEngine::DoneCallback done = {};  // may be empty
  };

  // How many tokens the texts of a step guess: choose_shared_lengths(), but in tests.
  using ChooseLengths =
      std::function<std::vector<uint32_t>(std::span<const TextChance> texts, uint32_t most, const PassCosts &costs)>;

  // Throws EngineError.
  BatchState(std::shared_ptr<EngineState> engine, const BatchOptions &options,
             ChooseLengths choose_lengths = choose_shared_lengths);
  ~BatchState();
  // Ends all requests, and takes `state` away once no callback can look for it there any more; on its own thread, which
  // cannot wait for itself, at once, and it is destroyed when that has ended.
  static void release(std::unique_ptr<BatchState> &state);
  BatchState(const BatchState &) = delete;
  BatchState &operator=(const BatchState &) = delete;

  const EngineState &engine() const { return *engine_; }

  // Takes all of them in at once. Throws EngineError where one can never be served, or release() was called; none is
  // taken in then.
  void submit(std::vector<Order> orders);

  // Throws EngineError in a callback, where whoever waited for a request would wait for ever.
  void check_may_wait() const;

  BatchStats stats() const;
  BackendInfo backend() const;

 private:
  struct Request;
  struct Results;
  using Requests = std::map<RequestId, std::unique_ptr<Request>>;  // go from one to the other without an allocation
  std::unique_ptr<Request> prepare(Order order);
  ExecutorConfig executor_config(const Placement &placement) const;
  BackendResult<void> try_to_run_on(std::shared_ptr<Placement> placement);
  void run_on(EngineState::Home home);
  void replace_scheduler(std::unique_ptr<Scheduler> scheduler);
  void stop();

  // The rest runs on the thread.
  void work();
  bool take_in();
  static void hand_over(Scheduler &scheduler, const Request &request, std::span<const int32_t> tokens);
  void end_cancelled();
  void step();
  const Step &plan();
  std::vector<Guess> guesses_for(const Step &step, uint32_t most);
  BackendResult<void> compute(const Step &step);
  BackendResult<void> forward(const Batch &batch, std::span<Output> outputs);
  std::vector<Result<LogProbs>> create_logprobs_for(const Step &step) const;
  void take_results(const Step &step);
  void take_row(Request &request, const Step::Row &row, const Results &results);
  std::optional<FinishReason> go_on(Request &request, const Results &results, size_t first);
  static std::optional<int32_t> choose(Request &request, const Results &results, size_t i);
  void end(Request &request, FinishReason reason);
  void fail(Request &request, std::exception_ptr error);
  void remove(Request &request);
  void deliver();
  void move_to_cpu(const BackendError &error);
  void abandon(const std::exception_ptr &error) noexcept;
  void restart();
  void publish_stats();

  const std::shared_ptr<EngineState> engine_;
  const BatchOptions options_;
  const ChooseLengths choose_lengths_;
  const uint32_t context_;           // of a request: the engine's, or the KV cache if that is smaller
  const uint32_t logprobs_threads_;  // that log-probabilities are made by

  std::shared_ptr<Placement> placement_;
  LentExecutor executor_;  // from placement_
  std::unique_ptr<Scheduler> scheduler_;
  std::optional<PassCosts> pass_costs_;  // of steps in which all texts have one token, and guesses behind it
  SchedulerCounts earlier_counts_;       // of schedulers before
  // Of a request or several, since end_cancelled() looked: so many may wait that a step cannot ask each of them.
  std::atomic<bool> is_stop_requested_ = false;
  Requests requests_;
  Requests ended_;               // in this step
  bool is_spoilt_ = false;       // scheduler_: what it says need not be so, and there is no request
  std::vector<Output> outputs_;  // (max_outputs) kept for their memory

  mutable std::mutex mutex_;  // for what follows
  std::condition_variable wake_;
  Requests arrived_;
  bool is_ending_ = false;  // nothing arrives any more
  RequestId n_requests_ = 0;
  BatchStats stats_;
  BackendInfo backend_;

  std::unique_ptr<BatchState> own_;  // itself, once its own thread has to destroy it
  std::thread thread_;
};

}  // namespace bonsai::host
