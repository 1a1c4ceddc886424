#include "host/server/metrics.h"

#include <fmt/format.h>

namespace bonsai::server {
namespace {

std::string head(std::string_view name, std::string_view help, std::string_view type) {
  return fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

std::string counter(std::string_view name, std::string_view help, uint64_t value) {
  return head(name, help, "counter") + fmt::format("{} {}\n", name, value);
}

std::string gauge(std::string_view name, std::string_view help, uint64_t value) {
  return head(name, help, "gauge") + fmt::format("{} {}\n", name, value);
}

std::string escaped(std::string_view label) {
  std::string text;
  for (const char c : label) {
    if (c == '"' || c == '\\') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

// A name is a label of something that is always 1, as the format has no texts.
std::string where_it_runs(const BackendInfo &backend) {
  return head("bonsai_backend_info", "where texts are computed", "gauge") +
         fmt::format("bonsai_backend_info{{backend=\"{}\",device=\"{}\"}} 1\n", escaped(backend.name),
                     escaped(backend.device)) +
         gauge("bonsai_failed_over", "1: not where they were to be, as that has failed or had no room",
               backend.failed_over.empty() ? 0 : 1);
}

}  // namespace

void Histogram::add(double seconds) {
  size_t i = 0;
  while (i < kBounds.size() && seconds > kBounds[i]) ++i;
  ++counts_[i];
  sum_ += seconds;
}

// Buckets count all that took less, too.
std::string Histogram::text(std::string_view name, std::string_view help) const {
  std::string text = head(name, help, "histogram");
  uint64_t so_far = 0;
  for (size_t i = 0; i < kBounds.size(); ++i)
    text += fmt::format("{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], so_far += counts_[i]);
  so_far += counts_.back();
  return text + fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, so_far, sum_);
}

void Metrics::count_exchange(std::string_view route, int status, double seconds) {
  const std::lock_guard lock(mutex_);
  ++exchanges_[{std::string(route), status}];
  exchange_seconds_.add(seconds);
}

void Metrics::count_text(uint64_t prompt_tokens, uint64_t reused, const Generation &generation) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += prompt_tokens;
  reused_tokens_ += reused;
  generated_tokens_ += generation.tokens.size();
  const GenerationStats &stats = generation.stats;
  if (!generation.tokens.empty()) first_token_seconds_.add(stats.prompt_seconds);
  if (stats.decode_steps > 0) token_seconds_.add(stats.decode_seconds / stats.decode_steps);
}

void Metrics::count_embedding(uint64_t tokens) {
  const std::lock_guard lock(mutex_);
  embedded_tokens_ += tokens;
}

std::string Metrics::text(const BatchStats &batch, const BackendInfo &backend) const {
  const std::lock_guard lock(mutex_);
  std::string text = where_it_runs(backend);
  text += head("bonsai_http_requests_total", "HTTP requests, by route and status; 0: cut off", "counter");
  for (const auto &[key, count] : exchanges_)
    text += fmt::format("bonsai_http_requests_total{{route=\"{}\",status=\"{}\"}} {}\n", key.first, key.second, count);
  text += exchange_seconds_.text("bonsai_http_request_seconds", "time from a request to the end of its answer");
  text += first_token_seconds_.text("bonsai_first_token_seconds", "time from a prompt to the first token");
  text += token_seconds_.text("bonsai_token_seconds", "mean time for a token of a text behind its first");
  text += counter("bonsai_prompt_tokens_total", "tokens of prompts", prompt_tokens_);
  text += counter("bonsai_prompt_tokens_reused_total", "of these, computed for an earlier request", reused_tokens_);
  text += counter("bonsai_generated_tokens_total", "tokens of answers", generated_tokens_);
  text += counter("bonsai_embedded_tokens_total", "tokens of embedded texts", embedded_tokens_);
  text += gauge("bonsai_texts_running", "texts that are computed together now", batch.running);
  text += gauge("bonsai_texts_waiting", "texts that wait for a place", batch.waiting);
  text += counter("bonsai_steps_total", "passes of the model", batch.steps);
  text += counter("bonsai_preemptions_total", "times that a text gave its place to an earlier one", batch.preemptions);
  text += gauge("bonsai_kv_blocks", "blocks of the KV cache", batch.kv_blocks);
  text += gauge("bonsai_kv_blocks_free", "of these, with nothing in them", batch.kv_blocks_free);
  text += gauge("bonsai_kv_blocks_kept", "of these, with what later requests may reuse", batch.kv_blocks_kept);
  text += gauge("bonsai_batch_memory_bytes", "memory of the KV cache and scratch", batch.memory_bytes);
  return text;
}

}  // namespace bonsai::server
