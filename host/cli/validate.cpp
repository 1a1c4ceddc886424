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
#include "host/cli/file_tokenizer.h"
#include "host/cli/model_options.h"
#include "host/cli/units.h"

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

// Commands for texts need it, and there is hardly another one. Without a chat template texts can still be continued.
bool check_tokenizer(const gguf::File &file, Verdict &verdict) {
  const Result<text::Tokenizer> tokenizer = read_file_tokenizer(file);
  if (!accepted(tokenizer, verdict)) return false;
  for (std::string &finding : tokenizer_findings(file, *tokenizer)) verdict.findings.push_back(std::move(finding));
  return true;
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
    verdict.refusal = fmt::format("{}: {} of weights with an infinity or a NaN", file.path(),
                                  counted(report.nonfinite_blocks, "block"));
}

// Structure, then model, then tokenizer, then contents; the first refusal ends it. A file without tensors is a
// vocabulary: it has no model to check.
Verdict check_file(const std::string &path) {
  Verdict verdict;
  Result<gguf::File> opened = gguf::File::open(path);
  if (!accepted(opened, verdict)) return verdict;
  auto file = std::make_unique<gguf::File>(*std::move(opened));
  if (file->tensors().empty()) {
    verdict.findings.push_back("no tensors: the file holds a tokenizer at most");
    check_tokenizer(*file, verdict);
    return verdict;
  }
  const Result<model::Model> model = model::bind_model(std::move(file));
  if (!accepted(model, verdict)) return verdict;
  verdict.findings.insert(verdict.findings.end(), model->warnings.begin(), model->warnings.end());
  if (check_tokenizer(*model->file, verdict)) check_weights(*model->file, verdict);
  return verdict;
}

void show_as_json(const std::string &path, const Verdict &verdict, Output &out) {
  out.write_json({{"file", path},
                  {"valid", !verdict.refusal},
                  {"reason", verdict.refusal.value_or("")},
                  {"findings", verdict.findings},
                  {"tensors", verdict.n_tensors},
                  {"weights", verdict.n_weights}});
}

// But for the refusal, which is an error.
void show(const std::string &path, const Verdict &verdict, Output &out) {
  for (const std::string &finding : verdict.findings) out.write(bonsai::printable(finding) + "\n");
  if (verdict.refusal) return;
  out.write(fmt::format("{}: valid, {}, {}\n", bonsai::printable(path), counted(verdict.n_tensors, "tensor"),
                        counted(verdict.n_weights, "weight")));
}

}  // namespace

int validate_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options(
      "validate", "FILE [OPTIONS]",
      "Checks a model file: its structure, whether this program can run it, its tokenizer, and every weight.\n"
      "Exit code 0: it can be used; 1: it is refused, with one line that says why.\n"
      "JSON: {\"file\", \"valid\", \"reason\", \"findings\", \"tensors\", \"weights\"}.");
  options.value("model,m", "FILE", "the model file, by name");
  options.positional("model-file", 1);
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  // No default here: to call another file valid than the one that was forgotten helps nobody.
  if (!arguments->text("model") && arguments->texts("model-file").empty())
    throw UsageError("no file: expected the model file to check");
  const std::string path = model_path(*arguments, terminal);
  const Verdict verdict = check_file(path);
  const bool json = arguments->flag("json");
  write_if_read([&] { json ? show_as_json(path, verdict, terminal.out) : show(path, verdict, terminal.out); });
  if (verdict.refusal && !json) throw Failure(*verdict.refusal);
  return verdict.refusal ? kFailure : kSuccess;
}

}  // namespace bonsai::cli
