// Makes a Qwen3 model file with random weights in a real model's shape.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/quant/format.h"
#include "tools/synth/shapes.h"

namespace bonsai::synth {

struct Request {
  Shape shape;
  quant::Format format;         // of every matrix; norms are F32
  double yarn_factor = 1;       // above 1: YaRN over `yarn_original`
  uint32_t yarn_original = 0;   // the context that YaRN stretches: 16,384 in Bonsai-8B
  std::string vocabulary_file;  // a GGUF whose tokenizer is copied; empty: one token for each byte, and padding
  std::string name;             // general.name
  uint64_t seed = 1;
  std::string output;
};

// Returns false to stop: nothing is left behind then.
using Progress = std::function<bool(uint64_t done_bytes, uint64_t total_bytes)>;

// The same request gives the same bytes on any number of threads. Fails when the vocabulary cannot be read, the disk is
// full, a row does not divide into the format's blocks, or `progress` said stop.
Result<void> synthesise(const Request &request, const Progress &progress);

}  // namespace bonsai::synth
