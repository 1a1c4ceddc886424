// What an operator watches, in Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/.
#pragma once

#include <bonsai/batch_engine.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace bonsai::server {

// Counts how often something took at most so many seconds.
class Histogram {
 public:
  static constexpr std::array kBounds = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0};

  void add(double seconds);
  std::string text(std::string_view name, std::string_view help) const;

 private:
  std::array<uint64_t, kBounds.size() + 1> counts_{};  // of each interval
  double sum_ = 0;
};

// Every method may be called from any thread.
class Metrics {
 public:
  // An HTTP exchange is over. `route` is one of few names, never what a client chose. `status` 0: it was cut off.
  void count_exchange(std::string_view route, int status, double seconds);
  // A text is: `reused` of its prompt's tokens had been computed before.
  void count_text(uint64_t prompt_tokens, uint64_t reused, const Generation &generation);
  void count_embedding(uint64_t tokens);

  std::string text(const BatchStats &batch, const BackendInfo &backend) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> exchanges_;
  uint64_t prompt_tokens_ = 0, reused_tokens_ = 0, generated_tokens_ = 0, embedded_tokens_ = 0;
  Histogram exchange_seconds_, first_token_seconds_, token_seconds_;
};

}  // namespace bonsai::server
