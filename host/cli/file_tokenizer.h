// The tokenizer of a model file, for commands that load no model.
#pragma once

#include <string>

#include "core/base/result.h"
#include "core/gguf/file.h"
#include "core/text/tokenizer.h"

namespace bonsai::cli {

// Errors begin with the file's path, and name the key that is missing or wrong.
Result<text::Tokenizer> read_file_tokenizer(const gguf::File &file);
// The same of the file at `path`. Throws Failure.
text::Tokenizer load_tokenizer(const std::string &path);

// Why nobody can chat with the model, though its tokenizer is good: one line that begins with the file's path. Empty:
// one can.
std::string chat_template_problem(const gguf::File &file, const text::Tokenizer &tokenizer);

}  // namespace bonsai::cli
