#include "tools/synth/synthesise.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "core/gguf/file.h"
#include "core/gguf/writer.h"
#include "core/text/byte_alphabet.h"
#include "core/text/tokenizer.h"
#include "tools/common/output.h"
#include "tools/synth/random_weights.h"

namespace bonsai::synth {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // filled by one task from a seed of its own
constexpr size_t kBufferPieces = 64;             // filled in parallel, then written

// What a tensor is filled with.
struct Plan {
  std::string name;
  std::vector<uint64_t> shape;  // columns first
  quant::Format format;
  float deviation;  // standard deviation of its weights; 0: a norm, all ones

  uint64_t bytes() const {
    const uint64_t rows = shape.size() > 1 ? shape[1] : 1;
    return rows * quant::row_bytes(quant::traits(format), shape[0]);
  }
};

// Deviations keep the residual stream and the logits at the size that a trained model's have: a matrix product
// preserves variance at 1/sqrt(columns), the two that write to the residual stream add a little of it in each layer,
// and logits spread over a few units.
std::vector<Plan> plan_tensors(const Request &request) {
  const Shape &s = request.shape;
  const auto preserving = [](uint32_t columns) { return 1.0f / std::sqrt(static_cast<float>(columns)); };
  const float residual_share = 1.0f / std::sqrt(static_cast<float>(2 * s.layers));
  std::vector<Plan> plan;
  const auto matrix = [&](std::string name, uint32_t columns, uint32_t rows, float deviation) {
    plan.push_back({std::move(name), {columns, rows}, request.format, deviation});
  };
  const auto norm = [&](std::string name, uint32_t n) {
    plan.push_back({std::move(name), {n}, quant::Format::kF32, 0});
  };

  matrix("token_embd.weight", s.hidden, s.vocab, 2 * preserving(s.hidden));
  norm("output_norm.weight", s.hidden);
  if (!s.tied) matrix("output.weight", s.hidden, s.vocab, 2 * preserving(s.hidden));
  for (uint32_t layer = 0; layer < s.layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const uint32_t q_rows = s.heads * s.head_dim, kv_rows = s.kv_heads * s.head_dim;
    norm(block + "attn_norm.weight", s.hidden);
    matrix(block + "attn_q.weight", s.hidden, q_rows, preserving(s.hidden));
    matrix(block + "attn_k.weight", s.hidden, kv_rows, preserving(s.hidden));
    matrix(block + "attn_v.weight", s.hidden, kv_rows, preserving(s.hidden));
    norm(block + "attn_q_norm.weight", s.head_dim);
    norm(block + "attn_k_norm.weight", s.head_dim);
    matrix(block + "attn_output.weight", q_rows, s.hidden, residual_share * preserving(q_rows));
    norm(block + "ffn_norm.weight", s.hidden);
    matrix(block + "ffn_gate.weight", s.hidden, s.ffn, preserving(s.hidden));
    matrix(block + "ffn_up.weight", s.hidden, s.ffn, preserving(s.hidden));
    matrix(block + "ffn_down.weight", s.ffn, s.hidden, residual_share * preserving(s.ffn));
  }
  return plan;
}

// One token for each byte and the three that chat models need; padding up to the embedding's rows.
text::TokenizerData byte_tokenizer(uint32_t vocab) {
  text::TokenizerData data;
  for (const char32_t letter : text::kByteAlphabet) {  // U+0021 to U+0143: one or two bytes of UTF-8
    std::string token;
    if (letter < 0x80) {
      token = {static_cast<char>(letter)};
    } else {
      token = {static_cast<char>(0xC0 | letter >> 6), static_cast<char>(0x80 | (letter & 0x3F))};
    }
    data.tokens.push_back(std::move(token));
  }
  data.types.assign(256, 1);
  for (const char *special : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    data.tokens.emplace_back(special);
    data.types.push_back(3);
  }
  data.pre = "qwen2";
  data.bos = data.eos = 256;
  text::pad_tokens(data, vocab);
  return data;
}

Result<text::TokenizerData> make_vocabulary(const Request &request) {
  if (request.vocabulary_file.empty()) return byte_tokenizer(request.shape.vocab);
  auto file = gguf::File::open(request.vocabulary_file);
  if (!file) return tl::unexpected(file.error());
  if (const auto checked = tools::check_output(request.output, file->paths()); !checked)
    return tl::unexpected(checked.error());
  auto data = text::read_tokenizer(*file);
  if (!data) return data;
  if (data->tokens.size() > request.shape.vocab) {
    return fail("{}: {} tokens do not fit the shape's embedding of {} rows", request.vocabulary_file,
                data->tokens.size(), request.shape.vocab);
  }
  text::pad_tokens(*data, request.shape.vocab);
  return data;
}

void write_shape(const Request &request, gguf::Writer &writer) {
  const Shape &s = request.shape;
  writer.set_string("general.architecture", "qwen3");
  writer.set_string("general.name", request.name);
  writer.set_uint32("general.quantization_version", 2);
  writer.set_uint32("qwen3.block_count", s.layers);
  writer.set_uint32("qwen3.embedding_length", s.hidden);
  writer.set_uint32("qwen3.feed_forward_length", s.ffn);
  writer.set_uint32("qwen3.attention.head_count", s.heads);
  writer.set_uint32("qwen3.attention.head_count_kv", s.kv_heads);
  writer.set_uint32("qwen3.attention.key_length", s.head_dim);
  writer.set_uint32("qwen3.attention.value_length", s.head_dim);
  writer.set_float32("qwen3.attention.layer_norm_rms_epsilon", 1e-6f);
  writer.set_float32("qwen3.rope.freq_base", static_cast<float>(s.rope_base));
  if (request.yarn_factor > 1) {
    const uint32_t original = request.yarn_original;
    writer.set_string("qwen3.rope.scaling.type", "yarn");
    writer.set_float32("qwen3.rope.scaling.factor", static_cast<float>(request.yarn_factor));
    writer.set_uint32("qwen3.rope.scaling.original_context_length", original);
    writer.set_uint32("qwen3.context_length", static_cast<uint32_t>(original * request.yarn_factor));
  } else {
    writer.set_uint32("qwen3.context_length", s.context);
  }
}

// Pools are shared by tensors of one format and deviation.
class PoolCache {
 public:
  explicit PoolCache(uint64_t seed) : seed_(seed) {}
  const WeightPool &get(quant::Format format, float deviation) {
    const auto key = std::pair(format, deviation);
    auto found = pools_.find(key);
    if (found == pools_.end()) {
      found = pools_.try_emplace(key, quant::traits(format), deviation, Random(seed_ + pools_.size()).next()).first;
    }
    return found->second;
  }

 private:
  uint64_t seed_;
  std::map<std::pair<quant::Format, float>, WeightPool> pools_;
};

// Bytes per task: whole blocks, whatever the format.
size_t piece_bytes(const quant::FormatTraits &format) { return kPieceBytes / format.block_bytes * format.block_bytes; }

class TensorFiller {
 public:
  TensorFiller(uint64_t seed, gguf::Writer &writer, const Progress &progress, uint64_t total)
      : seed_(seed), pools_(seed), writer_(writer), progress_(progress), total_(total) {}

  Result<void> fill(const Plan &plan) {
    if (plan.deviation == 0) {
      const std::vector<float> ones(plan.shape[0], 1.0f);
      done_ += plan.bytes();
      return writer_.write(std::as_bytes(std::span(ones)));
    }
    const WeightPool &pool = pools_.get(plan.format, plan.deviation);
    const size_t piece = piece_bytes(quant::traits(plan.format));
    for (uint64_t left = plan.bytes(); left > 0;) {
      buffer_.resize(std::min<uint64_t>(left, piece * kBufferPieces));
      fill_buffer(pool, piece);
      if (auto written = writer_.write(buffer_); !written) return written;
      left -= buffer_.size();
      done_ += buffer_.size();
      if (!progress_(done_, total_)) return fail("interrupted, nothing was written");
    }
    return {};
  }

 private:
  void fill_buffer(const WeightPool &pool, size_t piece) {
    const size_t pieces = (buffer_.size() + piece - 1) / piece;
    const uint64_t first_seed = next_piece_seed_;
    next_piece_seed_ += pieces;
    tbb::parallel_for(size_t{0}, pieces, [&](size_t i) {
      const size_t begin = i * piece, end = std::min(begin + piece, buffer_.size());
      pool.fill(std::span(buffer_).subspan(begin, end - begin), Random(seed_ ^ (first_seed + i) << 20).next());
    });
  }

  uint64_t seed_;
  uint64_t next_piece_seed_ = 1;
  PoolCache pools_;
  gguf::Writer &writer_;
  const Progress &progress_;
  uint64_t total_, done_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace

Result<void> synthesise(const Request &request, const Progress &progress) {
  const std::vector<Plan> plan = plan_tensors(request);
  for (const Plan &tensor : plan) {
    const quant::FormatTraits &format = quant::traits(tensor.format);
    if (tensor.shape[0] % format.block_weights == 0) continue;
    return fail("{}: rows of {} weights are not a multiple of {}'s block of {}", tensor.name, tensor.shape[0],
                format.name, format.block_weights);
  }
  const auto vocabulary = make_vocabulary(request);
  if (!vocabulary) return tl::unexpected(vocabulary.error());
  auto writer = gguf::Writer::create(request.output);
  if (!writer) return tl::unexpected(writer.error());
  write_shape(request, *writer);
  text::write_tokenizer(*vocabulary, *writer);

  uint64_t total = 0;
  for (const Plan &tensor : plan) {
    if (auto added = writer->add_tensor(tensor.name, tensor.shape, tensor.format); !added) return added;
    total += tensor.bytes();
  }
  if (auto begun = writer->begin_data(); !begun) return begun;
  TensorFiller filler(request.seed, *writer, progress, total);
  for (const Plan &tensor : plan) {
    if (auto filled = filler.fill(tensor); !filled) return filled;
  }
  return writer->finish();
}

}  // namespace bonsai::synth
