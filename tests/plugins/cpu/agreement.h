// How well a backend's predictions agree with the float64 judge's, over a text.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <vector>

#include "core/reference/agreement.h"
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

// Over windows of 256 tokens, each from an empty cache, as many as there are in `tokens`.
inline reference::Agreement agreement_with_judge(const model::Model &model, OpenSession &session,
                                                 std::span<const int32_t> tokens) {
  reference::AgreementMeter meter;
  for (size_t begin = 0; begin + kWindow <= tokens.size(); begin += kWindow) {
    const auto window = tokens.subspan(begin, kWindow);
    const auto logits = window_logits(session, window);
    reference::Evaluator judge(model, reference::KvType::kF16);
    const auto judged = judge.steps(window);
    if (!judged) throw std::runtime_error(judged.error().message);
    for (size_t i = 0; i < kWindow; ++i) meter.add((*judged)[i], logits[i]);
  }
  return meter.result();
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
