// One request for text, from the batch to the client.
#pragma once

#include <bonsai/batch_engine.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "host/server/api_error.h"
#include "host/server/api_request.h"
#include "host/server/api_response.h"
#include "host/server/http.h"
#include "host/server/metrics.h"
#include "host/server/work_queue.h"

namespace bonsai::server {

// What all jobs need; it outlives them.
struct JobContext {
  const Engine &engine;
  BatchEngine &batch;
  Metrics &metrics;
  WorkQueue &writer;  // for answers that take their time to write: the batch does not wait for them
};

// Has the answers to a request computed and tells the client of them, all at the end or as they come; in which form, is
// for derived classes to say. The batch's thread calls it, and whoever starts it.
class TextJob : public std::enable_shared_from_this<TextJob> {
 public:
  // `place`: held until the last of the answer is with the responder.
  TextJob(const JobContext &context, std::shared_ptr<Responder> responder, std::shared_ptr<void> place);
  virtual ~TextJob() = default;
  TextJob(const TextJob &) = delete;
  TextJob &operator=(const TextJob &) = delete;

  // Puts `request.n` answers to each prompt into the batch. Throws EngineError, and nothing is computed then.
  void start(const TextRequest &request, const std::vector<std::vector<int32_t>> &prompts);

 protected:
  struct Answer {
    size_t prompt = 0;                          // its number
    std::optional<Generation> generation = {};  // once it is complete
  };

  // Called by one thread at a time. All answers of a stream are under way.
  virtual void begin_stream() = 0;
  // The text of an answer goes on. False: it is to end here.
  virtual bool push(size_t answer, std::string_view text) = 0;
  // An answer of a stream is complete.
  virtual void end_in_stream(size_t answer) = 0;
  // All of them are: the last of the stream, or its whole body.
  virtual void end_stream() = 0;
  virtual std::string body() = 0;
  // Whether the batch should not wait for these.
  virtual bool takes_time_to_end() const { return !is_stream_ || top_logprobs_; }
  // The stream ends with this.
  virtual void fail_stream(const ApiError &error) = 0;

  bool is_stream() const { return is_stream_; }
  const std::optional<uint32_t> &top_logprobs() const { return top_logprobs_; }
  size_t n_answers() const { return answers_.size(); }
  const Answer &answer(size_t i) const { return answers_[i]; }
  bool is_first_of_prompt(size_t answer) const;
  // Of all prompts, in tokens.
  uint64_t prompt_tokens() const;
  // Once all answers are complete.
  Usage usage() const;
  Responder &responder() const { return *responder_; }
  const Engine &engine() const { return context_.engine; }

 private:
  bool on_text(size_t answer, std::string_view text);
  void on_done(size_t answer, Generation generation, const std::exception_ptr &error);
  void start_answer(size_t answer, const TextRequest &request, std::span<const int32_t> prompt);
  void give_up(const ApiError &why);
  void fail(const std::exception_ptr &error) noexcept;
  void count(size_t answer);
  void end();
  void complete();
  uint64_t reused_tokens(size_t answer) const;

  const JobContext context_;
  const std::shared_ptr<Responder> responder_;

  // For what follows, and for what derived classes have. Nobody holds it for long.
  std::mutex mutex_;
  std::shared_ptr<void> place_;
  bool is_stream_ = false, has_failed_ = false;
  bool is_ending_ = false;      // from then on the rest is the writer's alone, which takes its time without the lock
  bool wants_nothing_ = false;  // but to have the prompt taken: the one token that is computed is nobody's
  std::optional<uint32_t> top_logprobs_;
  std::vector<size_t> prompt_lengths_;
  std::vector<Answer> answers_;
  size_t n_left_ = 0;

  std::stop_source stop_;
  std::stop_callback<std::function<void()>> on_gone_;  // ends first
};

}  // namespace bonsai::server
