// The backends of tests/host/failing_backend, as the tests of the engine use them.
#pragma once

#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/host/engine/seedling.h"

namespace bonsai {

// What was asked of a device: outputs of each kind, and tokens from outputs.
struct Outputs {
  uint64_t whole = 0, argmax = 0, top = 0, chained = 0;
};

// What an engine logged: its warnings, and the failing backend's account of its handles.
class Journal {
 public:
  void add(LogLevel level, std::string_view line) {
    const std::lock_guard lock(mutex_);
    if (level == LogLevel::kWarning) warnings_.emplace_back(line);
    if (line.ends_with(": opened")) ++n_opened_;
    if (const size_t at = line.find(": outputs: "); at != line.npos) add_outputs(std::string(line.substr(at + 11)));
    if (line.find(": closed after ") == line.npos) return;
    ++n_closed_;
    n_calls_ = std::stoul(std::string(line.substr(line.find("after ") + 6)));
    if (!line.ends_with("; left behind: 0 weights, 0 sessions; rules broken: 0")) broken_ += line;
  }

  const std::vector<std::string> &warnings() const { return warnings_; }
  size_t n_calls() const { return n_calls_; }          // of the device that was closed last
  const Outputs &outputs() const { return outputs_; }  // of all devices that were closed
  void expect_nothing_left() const {
    EXPECT_EQ(n_opened_, n_closed_);
    EXPECT_EQ(broken_, "");
  }

 private:
  void add_outputs(const std::string &counts) {
    std::istringstream words(counts);
    Outputs outputs;
    std::string word;
    words >> outputs.whole >> word >> word >> outputs.argmax >> word >> outputs.top >> word >> outputs.chained;
    outputs_.whole += outputs.whole;
    outputs_.argmax += outputs.argmax;
    outputs_.top += outputs.top;
    outputs_.chained += outputs.chained;
  }

  std::mutex mutex_;
  Outputs outputs_;
  std::vector<std::string> warnings_;
  std::string broken_;
  size_t n_opened_ = 0, n_closed_ = 0, n_calls_ = 0;
};

struct Failure {
  size_t at = 0;  // 0: none
  std::string status = "internal";
  std::string function = "all";
  std::string backend = "failing";
};

inline EngineOptions failing_options(const Failure &failure, Journal &journal) {
  EngineOptions options = seedling_options();
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_" + failure.backend + ".so";
  options.backend_options = {
      {"fail.at", std::to_string(failure.at)}, {"fail.status", failure.status}, {"fail.function", failure.function}};
  options.threads = 1;
  options.context = 64;
  options.log = [&journal](LogLevel level, std::string_view line) { journal.add(level, line); };
  return options;
}

}  // namespace bonsai
