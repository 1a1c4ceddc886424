// What an operator's Prometheus reads.
#include "host/server/metrics.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace bonsai::server {
namespace {

bool has_line(const std::string &text, const std::string &wanted) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line == wanted) return true;
  return false;
}

TEST(Histogram, BucketsCountWhatTookLessToo) {
  Histogram histogram;
  for (const double seconds : {0.001, 0.01, 0.3, 500.0}) histogram.add(seconds);
  const std::string text = histogram.text("x", "what it is");
  EXPECT_TRUE(text.starts_with("# HELP x what it is\n# TYPE x histogram\nx_bucket{le=\"0.01\"} 2\n")) << text;
  EXPECT_TRUE(has_line(text, "x_bucket{le=\"0.25\"} 2"));
  EXPECT_TRUE(has_line(text, "x_bucket{le=\"0.5\"} 3"));
  EXPECT_TRUE(has_line(text, "x_bucket{le=\"120\"} 3"));
  EXPECT_TRUE(has_line(text, "x_bucket{le=\"+Inf\"} 4"));
  EXPECT_TRUE(has_line(text, "x_count 4"));
  EXPECT_TRUE(has_line(text, "x_sum 500.311"));
}

TEST(Metrics, CountByRouteAndStatusAndTellOfTheBatch) {
  Metrics metrics;
  metrics.count_exchange("/health", 200, 0.001);
  metrics.count_exchange("/health", 200, 0.001);
  metrics.count_exchange("other", 404, 0.001);
  Generation generation;
  generation.tokens = {1, 2, 3};
  generation.stats.prompt_seconds = 0.02;
  generation.stats.decode_seconds = 1.0;
  generation.stats.decode_steps = 2;
  metrics.count_text(10, 4, generation);
  metrics.count_embedding(7);
  BackendInfo backend;
  backend.name = "cpu";
  backend.device = "a \"fast\" one \\";
  const BatchStats batch = {.running = 2, .waiting = 1, .preemptions = 5, .kv_blocks = 9};
  const std::string text = metrics.text(batch, backend);
  for (const char *line :
       {"bonsai_http_requests_total{route=\"/health\",status=\"200\"} 2",
        "bonsai_http_requests_total{route=\"other\",status=\"404\"} 1", "bonsai_prompt_tokens_total 10",
        "bonsai_prompt_tokens_reused_total 4", "bonsai_generated_tokens_total 3", "bonsai_embedded_tokens_total 7",
        "bonsai_first_token_seconds_bucket{le=\"0.025\"} 1", "bonsai_token_seconds_sum 0.5", "bonsai_texts_running 2",
        "bonsai_texts_waiting 1", "bonsai_preemptions_total 5", "bonsai_kv_blocks 9",
        "bonsai_backend_info{backend=\"cpu\",device=\"a \\\"fast\\\" one \\\\\"} 1", "bonsai_failed_over 0"})
    EXPECT_TRUE(has_line(text, line)) << line << "\n" << text;
  backend.failed_over = "there was no room";
  EXPECT_TRUE(has_line(metrics.text(batch, backend), "bonsai_failed_over 1"));
}

}  // namespace
}  // namespace bonsai::server
