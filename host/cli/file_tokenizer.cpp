#include "host/cli/file_tokenizer.h"

#include <fmt/format.h>

#include <utility>

#include "host/chat/template_of.h"
#include "host/cli/arguments.h"

namespace bonsai::cli {

Result<text::Tokenizer> read_file_tokenizer(const gguf::File &file) {
  Result<text::TokenizerData> data = text::read_tokenizer(file);
  if (!data) return tl::unexpected(std::move(data.error()));
  Result<text::Tokenizer> tokenizer = text::Tokenizer::create(*std::move(data));
  if (!tokenizer) return fail("{}: {}", file.path(), tokenizer.error().message);
  return tokenizer;
}

text::Tokenizer load_tokenizer(const std::string &path) {
  const Result<gguf::File> file = gguf::File::open(path);
  if (!file) throw Failure(file.error().message);
  Result<text::Tokenizer> tokenizer = read_file_tokenizer(*file);
  if (!tokenizer) throw Failure(tokenizer.error().message);
  return *std::move(tokenizer);
}

std::vector<std::string> tokenizer_findings(const gguf::File &file, const text::Tokenizer &tokenizer) {
  std::vector<std::string> findings = tokenizer.warnings();
  const Result<host::ModelTemplate> found = host::template_of(tokenizer);
  if (!found) findings.push_back(found.error().message);
  for (std::string &finding : findings) finding = fmt::format("{}: {}", file.path(), finding);
  return findings;
}

}  // namespace bonsai::cli
