// How a checkpoint makes one embedding of a text, as the sentence-transformers library keeps it: DIR/modules.json lists
// what a text passes through, and the pooling's own directory holds its config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"

namespace bonsai::convert {

// The pooling by the number that GGUF has for it (1 mean, 2 first token, 3 last token); nullopt where the checkpoint
// says nothing of it, or names one without a number. `notices` gets a line on what the runtime does not compute,
// `paths` what was read.
Result<std::optional<uint32_t>> read_pooling(const std::string &directory, std::vector<std::string> &notices,
                                             std::vector<std::string> &paths);

}  // namespace bonsai::convert
