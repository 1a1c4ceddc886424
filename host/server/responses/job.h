// An answer in the form of OpenAI's Responses API: https://platform.openai.com/docs/api-reference/responses/object.
#pragma once

#include <bonsai/chat_format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "host/server/responses/output.h"
#include "host/server/responses/request.h"
#include "host/server/responses/store.h"
#include "host/server/text_job.h"

namespace bonsai::server {

// POST /v1/responses
class ResponseJob final : public TextJob {
 public:
  // `store` outlives it.
  ResponseJob(const JobContext &context, std::shared_ptr<Responder> responder, std::shared_ptr<void> place,
              const ChatPrompt &prompt, const ResponseRequest &request, std::string_view model, ResponseStore &store);

 private:
  void begin_stream() override;
  bool push(size_t answer, std::string_view text) override;
  void end_in_stream(size_t answer) override;
  void end_stream() override;
  bool takes_time_to_end() const override { return true; }
  std::string body() override;
  void fail_stream(const ApiError &error) override;
  void finish();
  void keep(const Json &response);
  Json response(std::string_view status) const;
  Json usage_json() const;
  void event(std::string_view type, const Json &fields);

  const std::string id_, model_;
  const int64_t created_;
  const std::string settings_, items_;  // as text, which takes far less memory meanwhile; no items: not to be kept
  const bool parallel_calls_;
  ResponseStore &store_;
  ResponseOutput output_;
  ChatAnswer parser_;
  ChatMessage message_;      // once it is complete
  std::string_view status_;  // the same
  uint64_t n_events_ = 0;
};

}  // namespace bonsai::server
