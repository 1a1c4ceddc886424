// One request for text, from the batch to the client.
#pragma once

#include <bonsai/batch_engine.h>
#include <bonsai/chat_format.h>

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

// Has the answers to a request computed and tells the client of them, all at the end or as they come. The batch's
// thread calls it, and whoever starts it.
class TextJob : public std::enable_shared_from_this<TextJob> {
 public:
  // `place`: held until the last of the answer is with the responder.
  TextJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
          std::shared_ptr<void> place);
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

  // Called under the lock. The first event of an answer, if it has one.
  virtual std::optional<Json> first_delta(size_t answer) = 0;
  // The text of an answer goes on; events go through send(). False: it is to end here.
  virtual bool push(size_t answer, std::string_view text) = 0;
  // An answer is complete: the last event's delta, or the choice.
  virtual Json last_delta(size_t answer) = 0;
  virtual Json choice(size_t answer) = 0;
  virtual std::string_view finish_reason_of(size_t answer) = 0;
  virtual Json logprobs_json(size_t answer, uint32_t n_top) const = 0;
  // {"index", "delta": ...} or {"index", "text": ...}
  virtual Json event_choice(size_t answer, Json delta) const = 0;

  // An event with a part of an answer.
  void send(size_t answer, Json delta);
  bool is_stream() const { return is_stream_; }
  const Answer &answer(size_t i) const { return answers_[i]; }
  bool is_first_of_prompt(size_t answer) const;
  const Engine &engine() const { return context_.engine; }

 private:
  bool on_text(size_t answer, std::string_view text);
  void on_done(size_t answer, Generation generation, const std::exception_ptr &error);
  void start_answer(size_t answer, const TextRequest &request, std::span<const int32_t> prompt);
  void fail(const std::exception_ptr &error) noexcept;
  void count(size_t answer);
  void end_event(size_t answer);
  void end();
  void complete();
  Json with_end(Json choice, size_t answer);
  Usage usage() const;
  uint64_t reused_tokens(size_t answer) const;

  const JobContext context_;
  const std::shared_ptr<Responder> responder_;
  AnswerHead head_;

  std::mutex mutex_;  // for what follows, and for what derived classes have
  std::shared_ptr<void> place_;
  bool is_stream_ = false, has_failed_ = false;
  bool wants_nothing_ = false;  // but to have the prompt taken: the one token that is computed is nobody's
  std::optional<uint32_t> top_logprobs_;
  std::vector<size_t> prompt_lengths_;
  std::vector<Answer> answers_;
  size_t n_left_ = 0;

  std::stop_source stop_;
  std::stop_callback<std::function<void()>> on_gone_;  // ends first
};

// /v1/chat/completions
class ChatJob final : public TextJob {
 public:
  ChatJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head, std::shared_ptr<void> place,
          const ChatPrompt &prompt, const ChatRequest &request);

 private:
  std::optional<Json> first_delta(size_t answer) override;
  bool push(size_t answer, std::string_view text) override;
  Json last_delta(size_t answer) override;
  Json choice(size_t answer) override;
  std::string_view finish_reason_of(size_t answer) override;
  Json logprobs_json(size_t answer, uint32_t n_top) const override;
  Json event_choice(size_t answer, Json delta) const override;
  bool tell(size_t answer, ChatPiece kind, std::string_view text);
  bool tell_call(size_t answer, std::string_view text);
  const ChatMessage &message(size_t answer);

  struct Reply {
    ChatAnswer parser;
    std::optional<ChatMessage> message = {};  // once it is complete
    size_t n_calls = 0;
  };
  const bool parallel_calls_;
  const bool must_call_;  // the answer is a call, without any content
  std::vector<Reply> replies_;
};

// /v1/completions
class CompletionJob final : public TextJob {
 public:
  // `echoes`: what the answers to each prompt begin with; empty: nothing.
  CompletionJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
                std::shared_ptr<void> place, std::vector<Echo> echoes);

 private:
  std::optional<Json> first_delta(size_t answer) override;
  bool push(size_t answer, std::string_view text) override;
  Json last_delta(size_t) override { return ""; }
  Json choice(size_t answer) override;
  std::string_view finish_reason_of(size_t answer) override;
  Json logprobs_json(size_t answer, uint32_t n_top) const override;
  Json event_choice(size_t answer, Json delta) const override;
  const Echo *echo(size_t answer) const;

  const std::vector<Echo> echoes_;
};

}  // namespace bonsai::server
