// What a model's file says of how its tokens should be chosen.
#pragma once

#include <bonsai/sampling.h>

#include <string>
#include <vector>

#include "core/gguf/file.h"

namespace bonsai::host {

struct ModelSampling {
  SamplingOptions options;            // "balanced", but for what the file says
  bool is_given = false;              // the file says something that is followed
  std::vector<std::string> warnings;  // what it says that is not followed, one line each
};

// Reads general.sampling.temp, top_k, top_p, min_p, penalty_repeat and penalty_last_n, as llama.cpp's converter writes
// them from generation_config.json (https://github.com/ggml-org/llama.cpp/pull/17120).
ModelSampling model_sampling(const gguf::File &file);

}  // namespace bonsai::host
