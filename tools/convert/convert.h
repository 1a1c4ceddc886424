// Turns a Hugging Face Qwen3 checkpoint into a GGUF file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/quant/format.h"

namespace bonsai::convert {

struct Request {
  // config.json, tokenizer.json, model.safetensors or its shards, generation_config.json, chat_template.jinja,
  // modules.json and its pooling
  std::string directory;
  std::string output;
  std::string name;                 // general.name; empty: the directory's, or the repository's in Hugging Face's cache
  const quant::FormatTraits *type;  // of every matrix; norms are F32
};

// Called between pieces of work; returns false to stop, and nothing is left behind then.
using Progress = std::function<bool(uint64_t done_weights, uint64_t total_weights)>;

// What a person should know about the result: matrices that got another format because their rows do not divide
// into blocks, or of which only zeros are left, what was left out or ignored. One line each.
using Notices = std::vector<std::string>;

// Streams: memory stays far below the checkpoint's size. The bytes do not depend on the number of threads (those of the
// oneTBB arena that it is called in), and are those that bonsai-quantize makes of the model in the checkpoint's own
// format, or for FP8 in F32. The output appears under its name only when it is complete.
// Errors are one line that names the file and the member or tensor.
Result<Notices> convert(const Request &request, const Progress &progress);

}  // namespace bonsai::convert
