// The tokenizer of a model file, for commands that load no model.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/gguf/file.h"
#include "core/text/tokenizer.h"

namespace bonsai::cli {

// Errors begin with the file's path, and name the key that is missing or wrong.
Result<text::Tokenizer> read_file_tokenizer(const gguf::File &file);
// The same of the file at `path`. Throws Failure.
text::Tokenizer load_tokenizer(const std::string &path);

// What a person should know of a model though its tokenizer is good: what of it is not taken as it stands, and why
// nobody can chat with the model. Lines that begin with the file's path.
std::vector<std::string> tokenizer_findings(const gguf::File &file, const text::Tokenizer &tokenizer);

}  // namespace bonsai::cli
