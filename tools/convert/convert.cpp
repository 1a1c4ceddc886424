#include "tools/convert/convert.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>

#include "core/gguf/writer.h"
#include "core/model/weights.h"
#include "core/text/template/chat_template.h"
#include "core/text/tokenizer.h"
#include "tools/common/formats.h"
#include "tools/common/notices_by_kind.h"
#include "tools/common/output.h"
#include "tools/common/recoder.h"
#include "tools/convert/checkpoint.h"
#include "tools/convert/fp8.h"
#include "tools/convert/generation.h"
#include "tools/convert/json.h"
#include "tools/convert/pooling.h"

namespace bonsai::convert {
namespace {

namespace fs = std::filesystem;

std::string inside(const Request &request, std::string_view file) {
  return (fs::path(request.directory) / file).string();
}

// In Hugging Face's cache a checkpoint is in models--ORG--NAME/snapshots/HASH, which is another's only name.
std::string default_name(const std::string &directory) {
  std::error_code error;
  const fs::path path = fs::weakly_canonical(directory, error);
  if (error) return directory;
  const fs::path snapshots = path.parent_path();
  const std::string repository = snapshots.parent_path().filename().string();
  if (snapshots.filename() == "snapshots" && repository.starts_with("models--"))
    return repository.substr(repository.rfind("--") + 2);
  return path.filename().string();
}

void write_rope_scaling(const model::RopeScaling &rope, gguf::Writer &writer) {
  using Kind = model::RopeScaling::Kind;
  if (rope.kind == Kind::kNone) return;
  writer.set_string("qwen3.rope.scaling.type", rope.kind == Kind::kYarn ? "yarn" : "linear");
  writer.set_float32("qwen3.rope.scaling.factor", static_cast<float>(rope.factor));
  if (rope.kind != Kind::kYarn) return;
  writer.set_uint32("qwen3.rope.scaling.original_context_length", rope.original_context);
  writer.set_float32("qwen3.rope.scaling.yarn_beta_fast", static_cast<float>(rope.beta_fast));
  writer.set_float32("qwen3.rope.scaling.yarn_beta_slow", static_cast<float>(rope.beta_slow));
  // Hugging Face's attention_factor replaces 1 + 0.1 ln factor, GGUF's attn_factor multiplies it.
  const double multiplier = rope.attention_factor / (1 + 0.1 * std::log(rope.factor));
  if (std::fabs(multiplier - 1) > 1e-7) {
    writer.set_float32("qwen3.rope.scaling.attn_factor", static_cast<float>(multiplier));
  }
}

void write_config(const Request &request, const model::Config &config, gguf::Writer &writer) {
  writer.set_string("general.architecture", "qwen3");
  writer.set_string("general.name", request.name.empty() ? default_name(request.directory) : request.name);
  writer.set_uint32("general.quantization_version", 2);
  writer.set_uint32("qwen3.block_count", config.layers);
  writer.set_uint32("qwen3.context_length", config.context);
  writer.set_uint32("qwen3.embedding_length", config.hidden);
  writer.set_uint32("qwen3.feed_forward_length", config.ffn);
  writer.set_uint32("qwen3.attention.head_count", config.heads);
  writer.set_uint32("qwen3.attention.head_count_kv", config.kv_heads);
  writer.set_uint32("qwen3.attention.key_length", config.head_dim);
  writer.set_uint32("qwen3.attention.value_length", config.head_dim);
  writer.set_float32("qwen3.attention.layer_norm_rms_epsilon", config.rms_eps);
  writer.set_float32("qwen3.rope.freq_base", static_cast<float>(config.rope_base));
  write_rope_scaling(config.rope_scaling, writer);
}

Result<text::TokenizerData> read_tokenizer(const Request &request, uint32_t vocab, Notices &notices,
                                           std::vector<std::string> &paths) {
  const std::string tokenizer_path = inside(request, "tokenizer.json");
  const std::string config_path = inside(request, "tokenizer_config.json");
  const std::string template_path = inside(request, "chat_template.jinja");
  paths.insert(paths.end(), {tokenizer_path, config_path, template_path});
  auto tokenizer = read_text(tokenizer_path);
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  Result<std::string> config = fs::exists(config_path) ? read_text(config_path) : std::string();
  if (!config) return tl::unexpected(config.error());
  std::vector<std::string> warnings;
  auto data = text::read_tokenizer_json(*tokenizer, *config, warnings);
  if (!data) return fail("{}", inside(request, data.error().message));
  for (const std::string &warning : warnings) notices.push_back(inside(request, warning));
  if (fs::exists(template_path)) {  // newer checkpoints keep it in a file of its own, which then rules
    auto chat_template = read_text(template_path);
    if (!chat_template) return tl::unexpected(chat_template.error());
    data->chat_template = std::move(*chat_template);
  }
  if (data->tokens.size() > vocab) {
    return fail("{}: {} tokens, but the embedding has {} rows", tokenizer_path, data->tokens.size(), vocab);
  }
  text::pad_tokens(*data, vocab);
  return data;
}

// One tensor of the output, and where it comes from.
struct PlannedTensor {
  std::string name;
  const SourceTensor *source;
  std::vector<uint64_t> shape;  // GGUF's order: columns first
  const quant::FormatTraits *format;
  std::optional<tools::ScaleGrid> scales;  // of an FP8 source

  uint64_t weights() const {
    uint64_t count = 1;
    for (uint64_t extent : shape) count *= extent;
    return count;
  }
};

tools::Recoding recoding_of(const PlannedTensor &tensor, const std::string &directory) {
  const SourceTensor &source = *tensor.source;
  return {.name = fmt::format("{}: {}", directory, source.name),
          .columns = tensor.shape[0],
          .from = source.is_fp8 ? &fp8_codes() : &quant::traits(*source.format),
          .blocks = source.bytes,
          .to = tensor.format,
          .scales = tensor.scales ? &*tensor.scales : nullptr};
}

// Lists the output's tensors, checks that the checkpoint has each in the shape that its configuration asks for, and
// keeps the first error.
class Planner {
 public:
  Planner(const Request &request, const CheckpointConfig &config, const CheckpointTensors &tensors)
      : request_(request),
        config_(config),
        tensors_(tensors),
        prefix_(tensors.find("embed_tokens.weight") != nullptr ? "" : "model.") {}

  Result<std::vector<PlannedTensor>> plan(Notices &notices) {
    const model::Config &c = config_.model;
    matrix("token_embd", prefix_ + "embed_tokens", c.vocab, c.hidden);
    norm("output_norm", prefix_ + "norm", c.hidden);
    plan_head();
    for (uint32_t layer = 0; layer < c.layers && !error_; ++layer) plan_layer(layer);
    check_others();
    if (error_) return tl::unexpected(*error_);
    fallbacks_.append_to(notices);
    notices.insert(notices.end(), notices_.begin(), notices_.end());
    left_out_.append_to(notices);
    return std::move(plan_);
  }

 private:
  void plan_head() {
    if (config_.tied) return;
    if (tensors_.find("lm_head.weight") != nullptr)
      matrix("output", "lm_head", config_.model.vocab, config_.model.hidden);
    else
      notices_.push_back("lm_head.weight: missing, although tie_word_embeddings is false; the head is the embedding");
  }

  void plan_layer(uint32_t layer) {
    const model::Config &c = config_.model;
    const std::string to = fmt::format("blk.{}.", layer);
    const std::string from = fmt::format("{}layers.{}.", prefix_, layer);
    const uint64_t q_rows = uint64_t{c.heads} * c.head_dim;
    const uint64_t kv_rows = uint64_t{c.kv_heads} * c.head_dim;
    norm(to + "attn_norm", from + "input_layernorm", c.hidden);
    matrix(to + "attn_q", from + "self_attn.q_proj", q_rows, c.hidden);
    matrix(to + "attn_k", from + "self_attn.k_proj", kv_rows, c.hidden);
    matrix(to + "attn_v", from + "self_attn.v_proj", kv_rows, c.hidden);
    norm(to + "attn_q_norm", from + "self_attn.q_norm", c.head_dim);
    norm(to + "attn_k_norm", from + "self_attn.k_norm", c.head_dim);
    matrix(to + "attn_output", from + "self_attn.o_proj", c.hidden, q_rows);
    norm(to + "ffn_norm", from + "post_attention_layernorm", c.hidden);
    matrix(to + "ffn_gate", from + "mlp.gate_proj", c.ffn, c.hidden);
    matrix(to + "ffn_up", from + "mlp.up_proj", c.ffn, c.hidden);
    matrix(to + "ffn_down", from + "mlp.down_proj", c.hidden, c.ffn);
  }

  void matrix(const std::string &to, const std::string &from, uint64_t rows, uint64_t columns) {
    const auto &format = tools::format_for_rows(to + ".weight", columns, *request_.type, fallbacks_);
    add(to + ".weight", from + ".weight", {rows, columns}, &format);
  }

  void norm(const std::string &to, const std::string &from, uint64_t size) {
    add(to + ".weight", from + ".weight", {size}, &quant::traits(quant::Format::kF32));
  }

  void add(std::string to, const std::string &from, std::vector<uint64_t> shape, const quant::FormatTraits *format) {
    const std::string expected = fmt::format("{}", fmt::join(shape, " x "));
    const SourceTensor *source = tensors_.find(from);
    taken_.insert(from);
    if (!source) return set_error(fmt::format("{}: missing, expected {}", from, expected));
    const bool is_fp8 = source->is_fp8 && config_.fp8 && shape.size() == 2;
    if (!source->format && !is_fp8)
      return set_error(fmt::format("{}: dtype: expected F32, F16 or BF16, found {}", from, source->dtype));
    if (source->shape != shape) {
      return set_error(fmt::format("{}: expected {}, found {}", from, expected, fmt::join(source->shape, " x ")));
    }
    std::optional<tools::ScaleGrid> scales;
    if (is_fp8) scales = find_scales(*source);
    std::reverse(shape.begin(), shape.end());
    plan_.push_back({std::move(to), source, std::move(shape), format, std::move(scales)});
  }

  // "_scale_inv" is what Qwen's and DeepSeek's checkpoints call them. They are factors under either name.
  std::optional<tools::ScaleGrid> find_scales(const SourceTensor &codes) {
    for (const char *end : {"_scale_inv", "_scale"}) {
      const SourceTensor *scales = tensors_.find(codes.name + end);
      if (!scales) continue;
      taken_.insert(scales->name);
      auto grid = read_scales(codes, *scales, *config_.fp8);
      if (grid) return *std::move(grid);
      set_error(grid.error().message);
      return std::nullopt;
    }
    set_error(fmt::format("{0}_scale_inv: missing, expected the scales of {0}", codes.name));
    return std::nullopt;
  }

  // What nobody asked for. A tied checkpoint may hold a copy of the embedding as lm_head.
  void check_others() {
    for (std::string_view name : tensors_.names()) {
      if (taken_.contains(std::string(name)) || (config_.tied && name == "lm_head.weight")) continue;
      if (name.ends_with(".bias")) return set_error(fmt::format("{}: Qwen3 has no biases", name));
      if (name.starts_with(prefix_ + "layers.") && name.ends_with(".weight")) {
        return set_error(fmt::format("{}: not part of a Qwen3 of {} layers", name, config_.model.layers));
      }
      left_out_.add(name, "not part of Qwen3 and left out");
    }
  }

  void set_error(const std::string &message) {
    if (!error_) error_ = Error{fmt::format("{}: {}", request_.directory, message)};
  }

  const Request &request_;
  const CheckpointConfig &config_;
  const CheckpointTensors &tensors_;
  const std::string prefix_;  // of the names but lm_head's; a Qwen3Model that was saved alone has none
  std::vector<PlannedTensor> plan_;
  std::set<std::string> taken_;
  tools::NoticesByKind fallbacks_, left_out_;
  Notices notices_;
  std::optional<Error> error_;
};

// Whether the runtime takes the model: more is asked of it than of a checkpoint's files, and a person should learn that
// here. A chat template that cannot be used leaves a model that continues texts.
Result<void> check_model(std::unique_ptr<gguf::File> file, Notices &notices) {
  const auto model = model::bind_model(std::move(file));
  if (!model) return tl::unexpected(model.error());
  auto data = text::read_tokenizer(*model->file);
  if (!data) return tl::unexpected(data.error());
  const auto tokenizer = text::Tokenizer::create(*std::move(data));
  if (!tokenizer) return fail("{}: {}", model->file->path(), tokenizer.error().message);
  notices.insert(notices.end(), tokenizer->warnings().begin(), tokenizer->warnings().end());
  if (tokenizer->chat_template().empty()) return {};
  if (const auto parsed = jinja::ChatTemplate::parse(tokenizer->chat_template()); !parsed)
    notices.push_back(fmt::format("nobody can chat with the model: chat template, {}", parsed.error().message));
  return {};
}

bool is_in_folder(const fs::path &file, const std::string &folder) {
  std::error_code ignored;
  return fs::equivalent(file.has_parent_path() ? file.parent_path() : ".", folder, ignored);
}

// What lies in the checkpoint's directory is its own, but for what was made of it before. A link there may lead
// elsewhere, and one elsewhere to there, which is where the output would be.
Result<void> check_folder(const Request &request) {
  const fs::path output = request.output;
  std::error_code error;
  if (!fs::exists(output, error)) return {};
  const fs::path resolved = fs::weakly_canonical(output, error);
  for (const fs::path &path : {output, error ? output : resolved}) {
    if (is_in_folder(path, request.directory) && path.extension() != ".gguf")
      return fail("{}: is one of the checkpoint's files, expected another", request.output);
  }
  return {};
}

// What the output is made of.
struct Source {
  model::Config config;
  CheckpointTensors tensors;
  std::vector<PlannedTensor> plan;  // points into `tensors`
  std::optional<uint32_t> pooling;
  text::TokenizerData tokenizer;
  Generation generation;
};

Result<Source> read_source(const Request &request, Notices &notices) {
  std::vector<std::string> paths = {inside(request, "config.json")};
  const auto config = read_checkpoint_config(paths.front());
  if (!config) return tl::unexpected(config.error());
  auto tensors = CheckpointTensors::open(request.directory);
  if (!tensors) return tl::unexpected(tensors.error());
  for (std::string &path : tensors->paths()) paths.push_back(std::move(path));
  notices = config->notices;
  auto plan = Planner(request, *config, *tensors).plan(notices);
  if (!plan) return tl::unexpected(plan.error());
  const auto pooling = read_pooling(request.directory, notices, paths);
  if (!pooling) return tl::unexpected(pooling.error());
  auto tokenizer = read_tokenizer(request, config->model.vocab, notices, paths);
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  auto generation = read_generation(request.directory, config->model.vocab, notices, paths);
  if (!generation) return tl::unexpected(generation.error());
  name_special_tokens(*generation, *tokenizer);
  if (const auto checked = tools::check_output(request.output, paths); !checked) return tl::unexpected(checked.error());
  return Source{config->model, *std::move(tensors),   *std::move(plan),
                *pooling,      *std::move(tokenizer), *std::move(generation)};
}

// All of the output but the tensors' data.
Result<void> write_header(const Request &request, const Source &source, gguf::Writer &writer) {
  write_config(request, source.config, writer);
  write_sampling(source.generation, writer);
  if (source.pooling) writer.set_uint32("qwen3.pooling_type", *source.pooling);
  text::write_tokenizer(source.tokenizer, writer);
  std::map<quant::Format, uint64_t> matrix_weights;
  for (const PlannedTensor &tensor : source.plan) {
    if (auto added = writer.add_tensor(tensor.name, tensor.shape, tensor.format->format); !added) return added;
    if (tensor.shape.size() > 1) matrix_weights[tensor.format->format] += tensor.weights();
  }
  if (const auto type = tools::file_type(matrix_weights)) writer.set_uint32("general.file_type", *type);
  return writer.begin_data();
}

}  // namespace

Result<Notices> convert(const Request &request, const Progress &progress) {
  if (auto checked = check_folder(request); !checked) return tl::unexpected(checked.error());
  Notices notices;
  const auto source = read_source(request, notices);
  if (!source) return tl::unexpected(source.error());
  auto writer = gguf::Writer::create(request.output);
  if (!writer) return tl::unexpected(writer.error());
  if (auto written = write_header(request, *source, *writer); !written) return tl::unexpected(written.error());
  auto checked = writer->preview([&](auto file) -> Result<void> {
    const Result<void> model = file ? check_model(*std::move(file), notices) : tl::unexpected(file.error());
    if (model) return {};
    return fail("{}: makes a model that cannot be run: {}", request.directory, model.error().message);
  });
  if (!checked) return tl::unexpected(checked.error());

  uint64_t total = 0;
  for (const PlannedTensor &tensor : source->plan) total += tensor.weights();
  tools::Recoder recoder(*writer, progress, total);
  tools::NoticesByKind vanished;
  for (const PlannedTensor &tensor : source->plan) {
    const auto release = [&](std::span<const std::byte> bytes) { source->tensors.release(*tensor.source, bytes); };
    const auto done = recoder.write(recoding_of(tensor, request.directory), release);
    if (!done) return tl::unexpected(done.error());
    if (done->have_vanished()) vanished.add_vanished(tensor.name, tensor.format->name);
  }
  vanished.append_to(notices);
  progress(total, total);
  if (auto finished = writer->finish(); !finished) return tl::unexpected(finished.error());
  return notices;
}

}  // namespace bonsai::convert
