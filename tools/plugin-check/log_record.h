// What a device logs, in its own words: the host's callback makes them safe to print, and would hide what is wrong.
#pragma once

#include <bonsai/backend.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/backend/registry.h"

namespace bonsai::check {

// While it lives, every device that is opened through its backend logs to it, and to nobody else. There is one at a
// time.
class LogRecord {
 public:
  explicit LogRecord(const host::Backend &backend);
  ~LogRecord();
  LogRecord(const LogRecord &) = delete;
  LogRecord &operator=(const LogRecord &) = delete;

  const std::shared_ptr<const host::Backend> &backend() const { return backend_; }

  // To be called when the last device is closed: what comes from here on comes too late.
  void end();
  // Fails the check if a message was none that the ABI allows.
  void expect_kept() const;

 private:
  struct Message {
    bonsai_log_level level;
    std::optional<std::string> text;  // nullopt: NULL
    bool is_late;
  };

  static bonsai_status open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                            bonsai_error *error);
  static void write(void *record, bonsai_log_level level, const char *text);

  std::shared_ptr<const host::Backend> backend_;
  decltype(bonsai_backend_api::device_open) plugins_open_;
  mutable std::mutex mutex_;  // messages may come from any thread
  std::vector<Message> messages_;
  bool has_ended_ = false;
};

}  // namespace bonsai::check
