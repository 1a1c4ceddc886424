#include "host/server/text_job.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "host/engine/reused_tokens.h"
#include "host/server/api_error.h"

namespace bonsai::server {
namespace {

// As if the text had ended ahead of its first token.
Generation without_tokens(Generation generation) {
  generation.text.clear();
  generation.tokens.clear();
  generation.logprobs.clear();
  generation.end_logprobs.reset();
  if (generation.finish != FinishReason::kCancelled) generation.finish = FinishReason::kLength;
  return generation;
}

}  // namespace

TextJob::TextJob(const JobContext &context, std::shared_ptr<Responder> responder, std::shared_ptr<void> place)
    : context_(context),
      responder_(std::move(responder)),
      place_(std::move(place)),
      on_gone_(responder_->gone(), [this] { stop_.request_stop(); }) {}

// What the batch says meanwhile waits until all of them are under way, or none is.
void TextJob::start(const TextRequest &request, const std::vector<std::vector<int32_t>> &prompts) {
  const std::lock_guard lock(mutex_);
  is_stream_ = request.stream;
  wants_nothing_ = request.options.max_tokens == 0;
  top_logprobs_ = request.top_logprobs;
  for (const auto &prompt : prompts) prompt_lengths_.push_back(prompt.size());
  for (size_t i = 0; i < prompts.size() * request.n; ++i) answers_.push_back({.prompt = i / request.n});
  n_left_ = answers_.size();
  try {
    for (size_t i = 0; i < answers_.size(); ++i) start_answer(i, request, prompts[answers_[i].prompt]);
  } catch (...) {
    has_failed_ = true;
    stop_.request_stop();
    place_.reset();
    throw;
  }
  if (!is_stream_) return;
  responder_->begin_events([job = weak_from_this()](const ApiError &why) {
    if (const auto self = job.lock()) self->give_up(why);
  });
  begin_stream();
}

// Answers to one prompt differ, also where a seed is given; how likely the prompt is, the first one tells for all.
void TextJob::start_answer(size_t answer, const TextRequest &request, std::span<const int32_t> prompt) {
  GenerateOptions options = request.options;
  options.cancel = stop_.get_token();
  if (wants_nothing_) options.max_tokens = 1;
  if (options.sampling.seed) *options.sampling.seed += answer % request.n;
  if (!is_first_of_prompt(answer)) options.prompt_logprobs_from.reset();
  const auto self = shared_from_this();
  const auto start = [&] {
    context_.batch.start_tokens(
        prompt, options, [self, answer](std::string_view text) { return self->on_text(answer, text); },
        [self, answer](Generation generation, const std::exception_ptr &error) {
          self->on_done(answer, std::move(generation), error);
        });
  };
  try {
    start();
  } catch (const EngineError &error) {
    if (error.kind() != ErrorKind::kContextFull || prompt_lengths_.size() == 1) throw;
    throw EngineError(error.kind(), fmt::format("prompt[{}]: {}", answers_[answer].prompt, error.what()));
  }
}

bool TextJob::on_text(size_t answer, std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (has_failed_) return false;
  return wants_nothing_ || push(answer, text);
}

void TextJob::on_done(size_t answer, Generation generation, const std::exception_ptr &error) {
  const std::lock_guard lock(mutex_);
  if (has_failed_) return;
  try {
    if (error) std::rethrow_exception(error);
    if (wants_nothing_) generation = without_tokens(std::move(generation));
    answers_[answer].generation = std::move(generation);
    count(answer);
    if (is_stream_ && !top_logprobs_) end_in_stream(answer);
    if (--n_left_ == 0) end();
  } catch (...) {
    fail(std::current_exception());
  }
}

void TextJob::count(size_t answer) {
  const uint64_t n_prompt = is_first_of_prompt(answer) ? prompt_lengths_[answers_[answer].prompt] : 0;
  context_.metrics.count_text(n_prompt, n_prompt == 0 ? 0 : reused_tokens(answer), *answers_[answer].generation);
}

// Whole answers are long, and logprobs, which come at the end of a stream, make them a hundred times as long. Without
// the lock: nothing more comes from the batch, and whoever gives up leaves it to the writer.
void TextJob::end() {
  if (!takes_time_to_end()) return complete();
  const bool taken = context_.writer.try_push([self = shared_from_this()] {
    {
      const std::lock_guard lock(self->mutex_);
      if (self->has_failed_) return;
      self->is_ending_ = true;
    }
    try {
      self->complete();
    } catch (...) {
      self->fail(std::current_exception());
    }
  });
  if (!taken) throw ApiError("too many answers are waiting to be written: try again later", 503);
}

// Its place is free before its client can know: the next request of one that asks one after the other finds it so.
void TextJob::complete() {
  place_.reset();
  if (!is_stream_) return responder_->reply({.body = body() + "\n"});
  for (size_t i = 0; top_logprobs_ && i < answers_.size(); ++i) end_in_stream(i);
  end_stream();
  responder_->end();
}

// There is no more time. What is complete by now has its end, or it is being written.
void TextJob::give_up(const ApiError &why) {
  const std::lock_guard lock(mutex_);
  if (!is_ending_ && !has_failed_) fail(std::make_exception_ptr(why));
}

// The other answers to the request end with it. Nothing may be thrown at the batch: where there is no memory to say so
// either, the responder tells the client when it goes.
void TextJob::fail(const std::exception_ptr &error) noexcept try {
  has_failed_ = true;
  stop_.request_stop();
  place_.reset();
  try {
    std::rethrow_exception(error);
  } catch (const std::exception &what) {
    const ApiError told = to_api_error(what);
    if (!is_stream_) return responder_->reply(error_reply(told, responder_->error_types()));
    fail_stream(told);
    responder_->end();
  }
} catch (...) {
}

// A prompt counts once, however many answers it has.
bool TextJob::is_first_of_prompt(size_t i) const { return i == 0 || answers_[i].prompt != answers_[i - 1].prompt; }

uint64_t TextJob::reused_tokens(size_t i) const {
  return host::reused_tokens(*answers_[i].generation, prompt_lengths_[answers_[i].prompt]);
}

uint64_t TextJob::prompt_tokens() const {
  return std::accumulate(prompt_lengths_.begin(), prompt_lengths_.end(), uint64_t{0});
}

Usage TextJob::usage() const {
  Usage usage{.prompt_tokens = prompt_tokens()};
  for (size_t i = 0; i < answers_.size(); ++i) {
    usage.completion_tokens += answers_[i].generation->tokens.size();
    if (is_first_of_prompt(i)) usage.cached_tokens += reused_tokens(i);
  }
  return usage;
}

}  // namespace bonsai::server
