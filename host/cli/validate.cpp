// `bonsai validate`: checks a model file and every weight in it.
#include "core/gguf/validate.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/utf8.h"
#include "core/model/weights.h"
#include "core/text/tokenizer.h"
#include "host/cli/command.h"
#include "host/cli/model_options.h"

namespace bonsai::cli {
namespace {

struct Verdict {
  std::optional<std::string> refusal;  // why the file cannot be used
  std::vector<std::string> findings;   // what a person should know all the same
  uint64_t n_tensors = 0, n_weights = 0;
};

template <class T>
bool accepted(const Result<T> &result, Verdict &verdict) {
  if (!result) verdict.refusal = result.error().message;
  return result.has_value();
}

void check_weights(const gguf::File &file, Verdict &verdict) {
  const gguf::ValidationReport report = gguf::validate(file);
  verdict.n_tensors = report.tensors.size();
  verdict.n_weights = report.weights;
  for (const gguf::TensorReport &tensor : report.tensors) {
    const std::string name = bonsai::quoted(tensor.name);
    if (tensor.nonfinite_blocks > 0)
      verdict.findings.push_back(
          fmt::format("tensor {}: infinity or NaN in {} of {} blocks", name, tensor.nonfinite_blocks, tensor.blocks));
    if (tensor.code3 > 0)
      verdict.findings.push_back(
          fmt::format("tensor {}: code 3 in {} of {} weights: not ternary", name, tensor.code3, tensor.weights));
  }
  if (!report.usable())
    verdict.refusal =
        fmt::format("{}: {} blocks of weights hold an infinity or a NaN", file.path(), report.nonfinite_blocks);
}

// Structure, then model, then tokenizer, then contents; the first refusal ends it. A file without tensors is a
// vocabulary: it has no model to check.
Verdict check_file(const std::string &path) {
  Verdict verdict;
  Result<gguf::File> opened = gguf::File::open(path);
  if (!accepted(opened, verdict)) return verdict;
  auto file = std::make_unique<gguf::File>(*std::move(opened));
  const Result<text::Tokenizer> tokenizer = text::read_tokenizer(*file).and_then(
      [](text::TokenizerData data) { return text::Tokenizer::create(std::move(data)); });
  if (!tokenizer) verdict.findings.push_back(tokenizer.error().message);
  if (file->tensors().empty()) {
    verdict.findings.push_back("no tensors: the file holds a tokenizer at most");
    return verdict;
  }
  const Result<model::Model> model = model::bind_model(std::move(file));
  if (!accepted(model, verdict)) return verdict;
  verdict.findings.insert(verdict.findings.end(), model->warnings.begin(), model->warnings.end());
  check_weights(*model->file, verdict);
  return verdict;
}

}  // namespace

int validate_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options("validate", "FILE [OPTIONS]",
                  "Checks a model file: its structure, whether this program can run it, and every weight.\n"
                  "Exit code 0: it can be used; 1: it is refused, with one line that says why.\n"
                  "JSON: {\"file\", \"valid\", \"reason\", \"findings\", \"tensors\", \"weights\"}.");
  add_model_option(options);
  options.positional("model-file", 1);
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const std::string path = model_path(*arguments, terminal);
  const Verdict verdict = check_file(path);
  if (arguments->flag("json")) {
    terminal.out.write_json({{"file", path},
                             {"valid", !verdict.refusal},
                             {"reason", verdict.refusal.value_or("")},
                             {"findings", verdict.findings},
                             {"tensors", verdict.n_tensors},
                             {"weights", verdict.n_weights}});
    return verdict.refusal ? kFailure : kSuccess;
  }
  for (const std::string &finding : verdict.findings) terminal.out.write(finding + "\n");
  if (verdict.refusal) throw Failure(*verdict.refusal);
  terminal.out.write(fmt::format("{}: valid, {} tensors, {} weights\n", path, verdict.n_tensors, verdict.n_weights));
  return kSuccess;
}

}  // namespace bonsai::cli
