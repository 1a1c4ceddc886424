// Answers in the form of OpenAI's chat completions and of its completions before these: choices.
#pragma once

#include <bonsai/chat_format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/server/api_request.h"
#include "host/server/api_response.h"
#include "host/server/text_job.h"

namespace bonsai::server {

class ChoicesJob : public TextJob {
 public:
  ChoicesJob(const JobContext &context, std::shared_ptr<Responder> responder, AnswerHead head,
             std::shared_ptr<void> place);

 protected:
  // The first event of an answer, if it has one.
  virtual std::optional<Json> first_delta(size_t answer) = 0;
  // An answer is complete: the last event's delta, or the choice.
  virtual Json last_delta(size_t answer) = 0;
  virtual Json choice(size_t answer) = 0;
  virtual std::string_view finish_reason_of(size_t answer) = 0;
  virtual Json logprobs_json(size_t answer, uint32_t n_top) const = 0;
  // Of all answers, once they are complete.
  virtual Usage whole_usage() { return usage(); }
  // {"index", "delta": ...} or {"index", "text": ...}
  virtual Json event_choice(size_t answer, Json delta) const = 0;

  // An event with a part of an answer.
  void send(size_t answer, Json delta);

 private:
  void begin_stream() final;
  void end_in_stream(size_t answer) final;
  void end_stream() final;
  std::string body() final;
  void fail_stream(const ApiError &error) final;
  Json with_end(Json choice, size_t answer);

  const AnswerHead head_;
};

// /v1/chat/completions
class ChatJob final : public ChoicesJob {
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
  Usage whole_usage() override;
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
class CompletionJob final : public ChoicesJob {
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
