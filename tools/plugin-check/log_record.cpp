#include "tools/plugin-check/log_record.h"

#include "core/base/utf8.h"
#include "tools/plugin-check/call_trace.h"
#include "tools/plugin-check/context.h"

namespace bonsai::check {
namespace {

LogRecord *current = nullptr;  // device_open is given no context of ours

}  // namespace

LogRecord::LogRecord(const host::Backend &backend)
    : backend_(with_table(backend, [](bonsai_backend_api &table) { table.device_open = open; })),
      plugins_open_(backend.api().device_open) {
  current = this;
}

LogRecord::~LogRecord() { current = nullptr; }

bonsai_status LogRecord::open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                              bonsai_error *error) {
  bonsai_device_config logging = *config;
  logging.log = write;
  logging.log_context = current;
  return current->plugins_open_(index, &logging, device, error);
}

void LogRecord::write(void *record, bonsai_log_level level, const char *text) {
  auto &own = *static_cast<LogRecord *>(record);
  const std::lock_guard lock(own.mutex_);
  own.messages_.push_back({level, text ? std::optional<std::string>(text) : std::nullopt, own.has_ended_});
}

void LogRecord::end() {
  const std::lock_guard lock(mutex_);
  has_ended_ = true;
}

void LogRecord::expect_kept() const {
  const std::lock_guard lock(mutex_);
  const std::string &name = backend_->name();
  for (const auto &[level, text, is_late] : messages_) {
    expect(text.has_value(), "a message of the log is NULL");
    expect(text->find_first_of("\r\n") == text->npos, "a message of the log has more than one line: {}",
           bonsai::quoted(*text));
    expect(level <= BONSAI_LOG_ERROR, "{} is logged at level {}, expected 0 to {}", bonsai::quoted(*text), level,
           uint32_t{BONSAI_LOG_ERROR});
    expect(text->starts_with(name), "{} is logged, expected the backend's name, '{}', in front", bonsai::quoted(*text),
           name);
    expect(!is_late, "{} is logged after device_close has returned", bonsai::quoted(*text));
  }
}

}  // namespace bonsai::check
