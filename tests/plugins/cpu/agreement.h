// How well a backend's predictions agree with the float64 judge's, over a text.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/reference/reference.h"
#include "core/text/tokenizer.h"
#include "tests/plugins/cpu/backend_support.h"

namespace bonsai::test {

constexpr uint32_t kWindow = 256;

// Sessions that hold a window and give the logits of all of it.
inline bonsai_session_config window_config() {
  bonsai_session_config config = small_config();
  config.max_tokens = config.max_outputs = kWindow;
  return config;
}

inline nlohmann::json seedling_golden() {
  std::ifstream file(BONSAI_TEST_DATA "/seedling-golden.json");
  return nlohmann::json::parse(file);
}

inline std::vector<double> log_softmax(const auto &logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  std::vector<double> result(logits.begin(), logits.end());
  for (double &value : result) value -= largest + std::log(sum);
  return result;
}

// KL(judge || backend) of one prediction, in nats.
inline double divergence(const std::vector<double> &judge, const std::vector<float> &backend) {
  const std::vector<double> p = log_softmax(judge), q = log_softmax(backend);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

// The largest logit's index and its lead over the second.
inline std::pair<size_t, double> leader(const std::vector<double> &logits) {
  size_t first = 0;
  double second = -INFINITY;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[first]) {
      second = logits[first];
      first = i;
    } else {
      second = std::max(second, logits[i]);
    }
  }
  return {first, logits[first] - second};
}

// Logits of every position of a window, from an empty cache.
inline std::vector<std::vector<float>> window_logits(OpenSession &session, std::span<const int32_t> tokens) {
  TestBatch batch;
  batch.block_table = {shuffled_blocks(16)};
  TestOutputs outputs(session.model.spec.vocab, session.model.spec.hidden);
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    batch.add(tokens[i], i);
    outputs.logits(i);
  }
  session.forward(batch, outputs);
  std::vector<std::vector<float>> logits;
  for (uint32_t i = 0; i < tokens.size(); ++i) logits.push_back(outputs[i].logits);
  return logits;
}

struct Agreement {
  uint32_t predictions = 0;
  uint32_t same_choice = 0;      // of these, with the same largest logit
  double mean_divergence = 0;    // KL(judge || backend), in nats
  double largest_lead_lost = 0;  // the judge's lead of its largest logit over the second, where the choice is another
};

// Over windows of 256 tokens, each from an empty cache, as many as there are in `tokens`.
inline Agreement agreement_with_judge(const model::Model &model, OpenSession &session,
                                      std::span<const int32_t> tokens) {
  Agreement agreement;
  double total_divergence = 0;
  for (size_t begin = 0; begin + kWindow <= tokens.size(); begin += kWindow) {
    const auto window = tokens.subspan(begin, kWindow);
    const auto logits = window_logits(session, window);
    reference::Evaluator judge(model, reference::KvType::kF16);
    for (size_t i = 0; i < kWindow; ++i) {
      const std::vector<double> expected = *judge.step(window[i]);
      const auto [first, lead] = leader(expected);
      const auto found = std::max_element(logits[i].begin(), logits[i].end()) - logits[i].begin();
      ++agreement.predictions;
      total_divergence += divergence(expected, logits[i]);
      if (static_cast<size_t>(found) == first)
        ++agreement.same_choice;
      else
        agreement.largest_lead_lost = std::max(agreement.largest_lead_lost, lead);
    }
  }
  agreement.mean_divergence = total_divergence / agreement.predictions;
  return agreement;
}

// 2,048 tokens of the text that the golden perplexity is of.
inline std::vector<int32_t> two_thousand_tokens(const model::Model &model) {
  auto data = text::read_tokenizer(*model.file);
  const auto tokenizer = text::Tokenizer::create(std::move(data.value()));
  const std::string text = seedling_golden()["perplexity"]["text"];
  std::vector<int32_t> tokens = tokenizer.value().encode(text, text::SpecialTokens::kPlain).value();
  if (tokens.size() < 8 * kWindow) throw std::logic_error("the golden text is too short");
  tokens.resize(8 * kWindow);
  return tokens;
}

}  // namespace bonsai::test
