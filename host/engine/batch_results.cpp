// BatchState: what each request makes of what a step has computed.
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "host/engine/batch_request.h"
#include "host/engine/batch_state.h"

namespace bonsai::host {

// Of all rows of those that ask for them, at once: where the vocabulary is large each takes as long as a good part of a
// pass, and what each request then does takes next to nothing.
std::vector<Result<LogProbs>> BatchState::create_logprobs_for(const Step &step) const {
  std::vector<LogProbsRequest> wanted;
  auto output = outputs_.begin();
  for (const Step::Row &row : step.rows) {
    const uint32_t n_top = requests_.at(row.id)->order.options.logprobs;
    for (const auto end = output + row.n_outputs; output != end; ++output)
      if (n_top > 0) wanted.push_back({output->logits, n_top});
  }
  return create_logprobs(wanted, logprobs_threads_);
}

void BatchState::take_results(const Step &step) {
  std::vector<Result<LogProbs>> all_logprobs = create_logprobs_for(step);
  std::span<Result<LogProbs>> logprobs = all_logprobs;
  std::span<Output> outputs = outputs_;
  for (const Step::Row &row : step.rows) {
    Request &request = *requests_.at(row.id);
    GenerationStats &stats = request.continuation.stats();
    if (!request.first_choice) {
      stats.prompt_tokens += row.n_tokens;
    } else if (row.wants_next) {
      ++stats.decode_steps;
      ++stats.decode_passes;
    }
    if (row.n_guesses > 0) request.speculator->verified(row.n_guesses);
    const size_t n_logprobs = request.order.options.logprobs > 0 ? row.n_outputs : 0;
    take_row(request, row, {outputs.first(row.n_outputs), logprobs.first(n_logprobs)});
    outputs = outputs.subspan(row.n_outputs);
    logprobs = logprobs.subspan(n_logprobs);
  }
}

// What goes wrong here is this request's own: its options, its callback.
void BatchState::take_row(Request &request, const Step::Row &row, const Results &results) {
  std::optional<FinishReason> ended;
  try {
    for (size_t i = 0; i < row.n_scored(); ++i)
      request.continuation.score(request.order.tokens[request.logits_from() + 1], results.outputs[i].logits,
                                 results.logprobs_of(i));
    if (!row.wants_next) return;
    if (!request.first_choice) request.first_choice = Clock::now();
    ended = go_on(request, results, row.n_scored());
  } catch (...) {
    return fail(request, std::current_exception());
  }
  if (ended) end(request, *ended);
}

// The token behind the request's last, and one more for each guess that was right. Returns why the text ends, if it
// does.
std::optional<FinishReason> BatchState::go_on(Request &request, const Results &results, size_t first) {
  Continuation &continuation = request.continuation;
  for (size_t i = first; i < results.outputs.size(); ++i) {
    const auto token = choose(request, results, i);
    if (!token) return FinishReason::kEndOfText;
    const bool was_guessed = scheduler_->append(request.id, *token);
    if (request.speculator) request.speculator->came(*token);
    const auto ended = continuation.accept(*token, scheduler_->room(request.id));
    if (ended || !was_guessed) return ended;
    ++continuation.stats().decode_steps;
  }
  return std::nullopt;
}

std::optional<int32_t> BatchState::choose(Request &request, const Results &results, size_t i) {
  Continuation &continuation = request.continuation;
  Output &output = results.outputs[i];
  if (output.kind != OutputKind::kLogits) return continuation.choose(output.top);
  if (results.logprobs.empty()) return continuation.choose(output.logits);
  return continuation.choose(output.logits, results.logprobs_of(i));
}

void BatchState::end(Request &request, FinishReason reason) {
  try {
    request.generation = request.continuation.finish(reason);
  } catch (...) {
    return fail(request, std::current_exception());
  }
  const auto now = Clock::now();
  GenerationStats &stats = request.generation.stats;
  stats.prompt_seconds = seconds_between(request.submitted, request.first_choice.value_or(now));
  if (request.first_choice) stats.decode_seconds = seconds_between(*request.first_choice, now);
  if (request.speculator) {
    stats.proposed_tokens = request.speculator->counts().proposed;
    stats.accepted_tokens = request.speculator->counts().accepted;
  }
  remove(request);
}

void BatchState::fail(Request &request, std::exception_ptr error) {
  request.error = std::move(error);
  remove(request);
}

// It has its result, also where the scheduler has no memory to keep what was computed.
void BatchState::remove(Request &request) {
  const RequestId id = request.id;
  ended_.insert(requests_.extract(id));
  scheduler_->finish(id);
}

}  // namespace bonsai::host
