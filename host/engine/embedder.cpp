#include "host/engine/embedder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "core/base/floating_point_environment.h"
#include "host/engine/placement.h"
#include "host/runtime/executor.h"

namespace bonsai::host {
namespace {

// Runs one sequence of tokens through an executor of its own, in pieces of a batch.
class Pass {
 public:
  Pass(std::span<const int32_t> tokens, const EmbeddingOptions &options, bool is_mean)
      : tokens_(tokens),
        is_mean_(is_mean),
        most_(std::min(options.batch_tokens, n_tokens())),
        cancel_(options.cancel) {}

  BackendResult<LentExecutor> start_on(Placement &placement) const {
    return placement.make_executor(sizes_for(placement));
  }

  // The sum of the wanted tokens' hidden states, (hidden): in float64 and from the first token to the last, so that it
  // does not matter where one batch ends. Empty: it was cancelled.
  BackendResult<std::vector<double>> sum_on(Placement &placement, LentExecutor executor) const {
    std::vector<uint32_t> block_table(executor->config().n_blocks), positions(tokens_.size());
    std::iota(block_table.begin(), block_table.end(), 0u);
    std::iota(positions.begin(), positions.end(), 0u);
    const std::vector<uint32_t> sequences(most_, 0);
    std::vector<double> sum;
    std::vector<Output> outputs;
    for (uint32_t first = 0; first < n_tokens(); first += most_) {
      if (cancel_.stop_requested()) return std::vector<double>();
      const uint32_t n = std::min(most_, n_tokens() - first);
      Batch batch;
      batch.tokens = tokens_.subspan(first, n);
      batch.positions = std::span(positions).subspan(first, n);
      batch.sequences = std::span(sequences).first(n);
      batch.block_table = block_table;
      batch.blocks_per_sequence = static_cast<uint32_t>(block_table.size());
      want(outputs, first, n);
      auto done = placement.forward(*executor, batch, outputs);
      if (!done) return tl::unexpected(std::move(done.error()));
      for (const Output &output : outputs) add(output.hidden, sum);
    }
    return sum;
  }

 private:
  uint32_t n_tokens() const { return static_cast<uint32_t>(tokens_.size()); }

  ExecutorConfig sizes_for(const Placement &placement) const {
    ExecutorConfig sizes = placement.executor_config();
    sizes.context = n_tokens();
    sizes.n_blocks = (n_tokens() + sizes.block_size - 1) / sizes.block_size;
    sizes.max_blocks_per_sequence = sizes.n_blocks;
    sizes.max_tokens = most_;
    sizes.max_outputs = is_mean_ ? most_ : 1;
    return sizes;
  }

  // Of the batch of `n` tokens that begins at `first`: all of them, or the text's last.
  void want(std::vector<Output> &outputs, uint32_t first, uint32_t n) const {
    const bool is_last = first + n == n_tokens();
    outputs.resize(is_mean_ ? n : is_last ? 1 : 0);
    for (uint32_t i = 0; i < outputs.size(); ++i) {
      outputs[i].kind = OutputKind::kHidden;
      outputs[i].token = is_mean_ ? i : n - 1;
    }
  }

  static void add(std::span<const float> hidden, std::vector<double> &sum) {
    sum.resize(hidden.size());
    for (size_t i = 0; i < hidden.size(); ++i) sum[i] += hidden[i];
  }

  std::span<const int32_t> tokens_;
  bool is_mean_;
  uint32_t most_;  // tokens in a batch
  std::stop_token cancel_;
};

void check_room(const EngineState &engine, size_t n_tokens) {
  if (n_tokens > engine.context())
    throw EngineError(ErrorKind::kContextFull,
                      fmt::format("context full: {} tokens to embed, room for {}", n_tokens, engine.context()));
}

void check(const EngineState &engine, std::span<const int32_t> tokens, const EmbeddingOptions &options) {
  if (options.pooling > Pooling::kModel)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("pooling: expected kMean (0), kLast (1) or kModel (2), found {}",
                                  static_cast<uint32_t>(options.pooling)));
  if (options.batch_tokens == 0)
    throw EngineError(ErrorKind::kInvalidArgument, "batch_tokens: expected at least 1, found 0");
  engine.check_tokens(tokens);
  check_room(engine, tokens.size());
}

// The same direction, length 1. A mean is a sum in this respect.
std::vector<float> normalized(const std::vector<double> &sum) {
  const double length = std::sqrt(std::inner_product(sum.begin(), sum.end(), sum.begin(), 0.0));
  if (!std::isfinite(length) || length == 0)
    throw EngineError(
        ErrorKind::kBackend,
        fmt::format("the hidden states give no direction: expected a finite length above 0, found {}", length));
  std::vector<float> result(sum.size());
  std::transform(sum.begin(), sum.end(), result.begin(), [&](double x) { return static_cast<float>(x / length); });
  return result;
}

}  // namespace

std::vector<int32_t> tokens_to_embed(const EngineState &engine, std::string_view text) {
  if (text.empty()) throw EngineError(ErrorKind::kInvalidArgument, "empty text: there is nothing to embed");
  const text::Tokenizer &known = engine.require_tokenizer();
  std::vector<int32_t> tokens =
      value_or_throw(known.encode(text, text::SpecialTokens::kPlain), ErrorKind::kInvalidArgument);
  if (known.bos() && known.add_bos()) tokens.insert(tokens.begin(), *known.bos());
  if (known.eos() && known.add_eos()) tokens.push_back(*known.eos());
  check_room(engine, tokens.size());
  return tokens;
}

std::vector<float> embed(EngineState &engine, std::span<const int32_t> tokens, const EmbeddingOptions &options) {
  check(engine, tokens, options);
  const bool is_mean =
      options.pooling == Pooling::kMean || (options.pooling == Pooling::kModel && !engine.model.config.pools_last);
  const Pass pass(tokens, options, is_mean);
  const DefaultFloatingPoint environment;  // for the sum and its length
  for (std::shared_ptr<Placement> placement = engine.placement();;) {
    auto executor = pass.start_on(*placement);
    const bool has_started = executor.has_value();
    const auto sum = has_started ? pass.sum_on(*placement, *std::move(executor)) : tl::unexpected(executor.error());
    if (sum) return sum->empty() ? std::vector<float>() : normalized(*sum);
    if (!is_backends_fault(sum.error())) throw EngineError(ErrorKind::kBackend, sum.error().message);
    // Throws once the CPU has failed, too.
    placement = engine.fail_over(*placement, sum.error(),
                                 has_started ? EngineState::FailedTo::kRun : EngineState::FailedTo::kStart);
  }
}

}  // namespace bonsai::host
