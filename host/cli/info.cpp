// `bonsai info`: shows what a model file holds.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/shortest.h"
#include "core/base/utf8.h"
#include "core/model/config.h"
#include "core/model/weights.h"
#include "core/text/tokenizer.h"
#include "host/cli/command.h"
#include "host/cli/file_tokenizer.h"
#include "host/cli/model_options.h"
#include "host/cli/units.h"
#include "host/engine/model_sampling.h"

namespace bonsai::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TypeTotal {
  uint64_t tensors = 0, weights = 0, bytes = 0;
};

// Everything that is shown; what a file lacks stays empty.
struct Summary {
  std::string path, name, architecture, tokenizer;
  uint32_t gguf_version = 0;
  uint64_t file_bytes = 0, parts = 1, weights = 0;
  std::optional<model::Config> config;
  bool tied = false;
  uint64_t tokens = 0;
  bool has_chat_template = false;
  std::optional<SamplingOptions> sampling;
  std::map<std::string_view, TypeTotal> types;
  std::vector<std::string> warnings;
  std::string refusal;  // why no text can be made with the model; empty if it can
};

std::string text_of(const gguf::File &file, std::string_view key) {
  const gguf::Value *value = file.find(key);
  return std::string(value ? value->as_string().value_or("") : "");
}

void add_types(const gguf::File &file, Summary &summary) {
  for (const gguf::Tensor &tensor : file.tensors()) {
    TypeTotal &total = summary.types[quant::traits(tensor.format).name];
    ++total.tensors;
    total.weights += tensor.rows() * tensor.columns();
    total.bytes += tensor.data.size();
    summary.weights += tensor.rows() * tensor.columns();
  }
}

// Returns why there can be no text: what is wrong with the tokenizer; empty if nothing is.
std::string add_tokenizer(const gguf::File &file, Summary &summary) {
  if (const Result<text::TokenizerData> data = text::read_tokenizer(file)) {
    summary.tokenizer = data->pre;
    summary.tokens = data->tokens.size();
    summary.has_chat_template = !data->chat_template.empty();
  }
  const Result<text::Tokenizer> tokenizer = read_file_tokenizer(file);
  if (!tokenizer) return tokenizer.error().message;
  for (std::string &finding : tokenizer_findings(file, *tokenizer)) summary.warnings.push_back(std::move(finding));
  return "";
}

// Metadata is shown even where the model is refused.
Summary summarize(const std::string &path) {
  const Result<gguf::File> file = gguf::File::open(path);
  if (!file) throw Failure(file.error().message);
  Summary summary;
  summary.path = path;
  summary.name = text_of(*file, "general.name");
  summary.architecture = text_of(*file, "general.architecture");
  summary.gguf_version = file->version();
  summary.file_bytes = file->file_bytes();
  summary.parts = file->parts();
  add_types(*file, summary);
  host::ModelSampling sampling = host::model_sampling(*file);
  if (sampling.is_given) summary.sampling = std::move(sampling.options);
  std::ranges::move(sampling.warnings, std::back_inserter(summary.warnings));
  const std::string no_tokenizer = add_tokenizer(*file, summary);
  const Result<model::Model> model = model::load_model(path);
  if (model) {
    summary.config = model->config;
    summary.tied = model->tied;
    summary.refusal = no_tokenizer;
    summary.warnings.insert(summary.warnings.end(), model->warnings.begin(), model->warnings.end());
  } else {
    summary.refusal = model.error().message;
    if (!no_tokenizer.empty()) summary.warnings.push_back(no_tokenizer);
    summary.warnings.insert(summary.warnings.end(), file->warnings().begin(), file->warnings().end());
  }
  return summary;
}

std::string describe(const model::RopeScaling &scaling) {
  const auto factor = static_cast<float>(scaling.factor);  // as the file has it
  switch (scaling.kind) {
    case model::RopeScaling::Kind::kNone:
      return "none";
    case model::RopeScaling::Kind::kLinear:
      return fmt::format("linear, factor {}", factor);
    case model::RopeScaling::Kind::kYarn:
      break;
  }
  return fmt::format("YaRN, factor {} over {}", factor, scaling.original_context);
}

Json to_json(const Summary &summary) {
  Json types = Json::object();
  for (const auto &[name, total] : summary.types)
    types[std::string(name)] = {{"tensors", total.tensors}, {"weights", total.weights}, {"bytes", total.bytes}};
  Json json = {{"file", summary.path},
               {"file_bytes", summary.file_bytes},
               {"parts", summary.parts},
               {"gguf_version", summary.gguf_version},
               {"name", summary.name},
               {"architecture", summary.architecture},
               {"weights", summary.weights},
               {"types", types},
               {"tokenizer", {{"pre", summary.tokenizer}, {"tokens", summary.tokens}}},
               {"chat_template", summary.has_chat_template}};
  if (summary.config) {
    const model::Config &config = *summary.config;
    json["model"] = {{"layers", config.layers},       {"hidden", config.hidden},
                     {"feed_forward", config.ffn},    {"heads", config.heads},
                     {"kv_heads", config.kv_heads},   {"head_dim", config.head_dim},
                     {"vocabulary", config.vocab},    {"context", config.context},
                     {"rope_base", config.rope_base}, {"rope_scaling", describe(config.rope_scaling)},
                     {"tied_head", summary.tied}};
  }
  if (summary.sampling) {
    const SamplingOptions &sampling = *summary.sampling;
    json["sampling"] = {{"temperature", shortest(sampling.temperature)},
                        {"top_k", sampling.top_k},
                        {"top_p", shortest(sampling.top_p)},
                        {"min_p", shortest(sampling.min_p)},
                        {"repetition_penalty", shortest(sampling.repetition_penalty)},
                        {"penalty_window", sampling.penalty_window}};
  }
  json["warnings"] = summary.warnings;
  json["refused"] = summary.refusal;
  return json;
}

std::string describe_model(const model::Config &config, bool tied) {
  return fmt::format(
      "layers        {}\nhidden        {}, feed-forward {}\n"
      "heads         {} of {}, {} for keys and values\nvocabulary    {}, {}\n"
      "context       {} tokens, RoPE base {}, scaling {}\n",
      config.layers, config.hidden, config.ffn, config.heads, config.head_dim, config.kv_heads, config.vocab,
      tied ? "head tied to the embedding" : "head of its own", config.context, config.rope_base,
      describe(config.rope_scaling));
}

// In the words of the options.
std::string describe(const SamplingOptions &sampling) {
  return fmt::format("--temp {} --top-k {} --top-p {} --min-p {} --repeat-penalty {} --repeat-last-n {}",
                     sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p, sampling.repetition_penalty,
                     sampling.penalty_window);
}

std::string to_text(const Summary &summary) {
  std::string text = fmt::format("file          {}, {}{}, GGUF v{}\n", bonsai::printable(summary.path),
                                 summary.parts > 1 ? counted(summary.parts, "part") + ", " : "",
                                 format_bytes(summary.file_bytes), summary.gguf_version);
  if (!summary.name.empty()) text += fmt::format("name          {}\n", bonsai::quoted(summary.name));
  text += fmt::format("architecture  {}\n", bonsai::quoted(summary.architecture));
  if (summary.config) text += describe_model(*summary.config, summary.tied);
  if (summary.tokens > 0)
    text += fmt::format("tokenizer     {}, {} tokens, {}\n", bonsai::quoted(summary.tokenizer), summary.tokens,
                        summary.has_chat_template ? "with a chat template" : "no chat template");
  if (summary.sampling) text += fmt::format("sampling      {}\n", describe(*summary.sampling));
  text += fmt::format("weights       {}\n", summary.weights);
  for (const auto &[name, total] : summary.types)
    text += fmt::format("  {:<12}{}, {}, {}, {:.3f} bits per weight\n", name, counted(total.tensors, "tensor"),
                        counted(total.weights, "weight"), format_bytes(total.bytes),
                        8.0 * static_cast<double>(total.bytes) / static_cast<double>(total.weights));
  for (const std::string &warning : summary.warnings)
    text += fmt::format("warning       {}\n", bonsai::printable(warning));
  if (!summary.refusal.empty()) text += fmt::format("cannot run    {}\n", bonsai::printable(summary.refusal));
  return text;
}

}  // namespace

int info_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options("info", "[FILE] [OPTIONS]", "Shows what a model file holds and whether it can be run.");
  add_model_option(options);
  options.positional("model-file", 1);
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const Summary summary = summarize(model_path(*arguments, terminal));
  if (arguments->flag("json"))
    terminal.out.write_json(to_json(summary));
  else
    terminal.out.write(to_text(summary));
  return kSuccess;
}

}  // namespace bonsai::cli
