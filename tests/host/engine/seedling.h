// The seedling, as the tests of the engine use it.
#pragma once

#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace bonsai {

inline std::string seedling_file() { return BONSAI_BINARY_DIR "/share/bonsai/seedling-q1_0.gguf"; }

inline EngineOptions seedling_options() {
  EngineOptions options;
  options.model = seedling_file();
  return options;
}

inline Engine load_seedling() { return Engine::load(seedling_options()); }

inline GenerateOptions greedy(uint32_t max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.sampling = *sampling_preset("greedy");
  return options;
}

// Prompt and greedy continuation as computed outside this project.
struct GoldenGreedy {
  std::vector<int32_t> tokens;  // BOS first; five of them are the prompt
  std::string text;
};
inline GoldenGreedy golden_greedy() {
  const auto json = nlohmann::json::parse(std::ifstream(BONSAI_TEST_DATA "/seedling-golden.json"))["greedy"];
  return {json["tokens"], json["text"]};
}

// What an action throws: its kind and message.
struct Thrown {
  ErrorKind kind{};
  std::string message = "nothing was thrown";
};
template <class Action>
Thrown thrown_by(Action action) {
  try {
    action();
  } catch (const EngineError &error) {
    return {error.kind(), error.what()};
  }
  return {};
}

}  // namespace bonsai
