// `bonsai perplexity`: measures how well a model predicts a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "host/cli/command.h"
#include "host/cli/logit_check.h"
#include "host/cli/model_options.h"
#include "host/cli/progress.h"
#include "host/cli/text_input.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

constexpr uint32_t kDefaultWindow = 512;

// -log p(token) in nats; infinite where the model rules the token out. Throws Failure where the logits are no
// distribution.
double negative_log_likelihood(std::span<const float> logits, int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - largest);
  const double result = largest + std::log(total) - logits[static_cast<size_t>(token)];
  if (std::isnan(result)) check_logits(logits);
  return result;
}

struct Score {
  double sum = 0;  // of negative log-likelihoods
  uint64_t predicted = 0;
};

// Windows without overlap, each from an empty cache: a window of n tokens predicts its last n - 1.
Score score_windows(Session &session, std::span<const int32_t> tokens, size_t window) {
  Score score;
  ProgressBar bar("perplexity");
  for (size_t first = 0; first < tokens.size(); first += window) {
    const auto piece = tokens.subspan(first, std::min(window, tokens.size() - first));
    if (piece.size() < 2) break;
    session.truncate(0);
    session.evaluate(piece.first(piece.size() - 1), [&](size_t i, std::span<const float> logits) {
      score.sum += negative_log_likelihood(logits, piece[i + 1]);
      ++score.predicted;
      bar.update(first + i, tokens.size());
    });
  }
  return score;
}

}  // namespace

int perplexity_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options(
      "perplexity", "[-m FILE] -f TEXTFILE [OPTIONS]",
      "Measures how well a model predicts a text: the exponential of the mean negative log-likelihood.\n"
      "Windows do not overlap; each starts from an empty cache, without BOS; a window of N tokens predicts\n"
      "N - 1. JSON: {\"perplexity\", \"nll\" (the mean, in nats), \"predicted\" (tokens), \"window\"}.");
  add_engine_options(options);
  add_text_options(options);
  options.value("window", "N", "tokens in a window (512)");
  options.value("tokens", "N", "use the first N tokens of the text (all)");
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const auto window = static_cast<uint32_t>(arguments->count("window", 2).value_or(kDefaultWindow));
  const uint64_t most_tokens = arguments->count("tokens", 2, UINT64_MAX).value_or(UINT64_MAX);
  const auto text = read_text(*arguments);
  if (!text) throw UsageError("no text: expected -f FILE, -p TEXT or '-f -' for stdin");

  EngineOptions engine_settings = engine_options(*arguments, terminal);
  if (engine_settings.context == 0) engine_settings.context = window;
  const Engine engine = load_engine(engine_settings);
  std::vector<int32_t> tokens = engine.tokenize(*text, false);
  if (tokens.size() > most_tokens) tokens.resize(most_tokens);
  if (tokens.size() < 2) throw Failure("the text has fewer than two tokens: there is nothing to predict");
  Session session = engine.new_session();
  const Score score = advising(engine, [&] { return score_windows(session, tokens, window); });
  const double nll = score.sum / static_cast<double>(score.predicted);
  if (arguments->flag("json"))
    terminal.out.write_json(
        {{"perplexity", std::exp(nll)}, {"nll", nll}, {"predicted", score.predicted}, {"window", window}});
  else
    terminal.out.write(fmt::format("perplexity {:.4f} ({:.5f} nats per token, {} predicted, windows of {})\n",
                                   std::exp(nll), nll, counted(score.predicted, "token"), window));
  return kSuccess;
}

}  // namespace bonsai::cli
