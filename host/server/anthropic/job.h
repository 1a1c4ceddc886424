// An answer in the form of Anthropic's Messages API: https://platform.claude.com/docs/en/api/messages.
#pragma once

#include <bonsai/chat_format.h>

#include <memory>
#include <string>
#include <string_view>

#include "host/server/anthropic/output.h"
#include "host/server/anthropic/request.h"
#include "host/server/text_job.h"

namespace bonsai::server {

// POST /v1/messages
class MessageJob final : public TextJob {
 public:
  MessageJob(const JobContext &context, std::shared_ptr<Responder> responder, std::shared_ptr<void> place,
             const ChatPrompt &prompt, const MessagesRequest &request, std::string_view model);

 private:
  void begin_stream() override;
  bool push(size_t answer, std::string_view text) override;
  void end_in_stream(size_t answer) override;
  void end_stream() override;
  std::string body() override;
  void fail_stream(const ApiError &error) override;
  void finish();
  Json message(Json usage) const;
  Json end_json() const;
  Json usage_json() const;
  void event(std::string_view type, const Json &fields);

  const std::string id_, model_;
  const bool parallel_calls_, tells_reasoning_;
  MessageContent content_;
  ChatAnswer parser_;
  bool calls_tools_ = false;
};

}  // namespace bonsai::server
