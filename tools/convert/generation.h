// What a checkpoint says of generating texts beside its tokenizer's files: token ids in config.json, and those and the
// sampling that is advised in generation_config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/gguf/writer.h"
#include "core/text/tokenizer.h"
#include "tools/convert/json.h"

namespace bonsai::convert {

struct Generation {
  std::vector<int32_t> ends;        // each once: generation_config.json's eos_token_id, then config.json's
  std::optional<int32_t> bos, pad;  // config.json's
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int32_t> top_k;
};

// Reads DIR/config.json and, where there is one, DIR/generation_config.json. Ids must be below `vocab`. What is out of
// range, or a generation_config.json that cannot be read, is left out, and `notices` gets a line on it; `paths` gets
// what was read. Errors are those of config.json.
Result<Generation> read_generation(const std::string &directory, uint32_t vocab, std::vector<std::string> &notices,
                                   std::vector<std::string> &paths);

// Adds the ends that the tokenizer does not name, and gives it the bos and pad that it lacks. Whether a text begins
// with bos stays the tokenizer's to say.
void name_special_tokens(const Generation &generation, text::TokenizerData &data);

// Sets general.sampling.*, as gguf-py does.
void write_sampling(const Generation &generation, gguf::Writer &writer);

}  // namespace bonsai::convert
