// `bonsai perplexity`: measures how well a model predicts a text.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/weights.h"
#include "core/reference/agreement.h"
#include "core/reference/reference.h"
#include "core/text/same_vocabulary.h"
#include "host/cli/command.h"
#include "host/cli/file_tokenizer.h"
#include "host/cli/logit_check.h"
#include "host/cli/logits_file.h"
#include "host/cli/model_options.h"
#include "host/cli/progress.h"
#include "host/cli/text_input.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

constexpr uint32_t kDefaultWindow = 512;

// -log p(token) in nats; infinite where the model rules the token out, NaN where the logits are no distribution.
template <class Number>
double negative_log_likelihood(std::span<const Number> logits, int32_t token) {
  return reference::log_normaliser(logits) - logits[static_cast<size_t>(token)];
}

struct Score {
  double sum = 0;  // of negative log-likelihoods
  uint64_t predicted = 0;

  double mean() const { return sum / static_cast<double>(predicted); }
  double perplexity() const { return std::exp(mean()); }
};

// Tokens that a judge predicts behind in one go; their logits are kept meanwhile.
constexpr size_t kJudgedTogether = 64;

// What predicts the same text, and against which the predictions are held.
class Judge {
 public:
  Judge() = default;
  virtual ~Judge() = default;
  Judge(const Judge &) = delete;
  Judge &operator=(const Judge &) = delete;

  virtual const char *name() const = 0;  // in what is found

  // `tokens` are there until the next window begins.
  void begin_window(std::span<const int32_t> tokens) {
    restart();
    n_evaluated_ = 0;
    tokens_ = tokens;
  }

  // What follows the window's token `i`, and another's logits of it. Once for each, in order.
  void predict(size_t i, int32_t next, std::span<const float> other) {
    if (i == n_evaluated_) evaluate_more();
    const std::vector<double> &logits = logits_[logits_.size() - (n_evaluated_ - i)];
    score_.sum += negative_log_likelihood(std::span<const double>(logits), next);
    ++score_.predicted;
    meter_.add(logits, other);
  }

  const Score &score() const { return score_; }
  reference::Agreement agreement() const { return meter_.result(); }

 private:
  virtual void restart() = 0;
  // The logits behind each of the tokens, which go on where those before ended.
  virtual std::vector<std::vector<double>> evaluate(std::span<const int32_t> tokens) = 0;

  void evaluate_more() {
    const auto rest = tokens_.subspan(n_evaluated_);
    logits_ = evaluate(rest.first(std::min(rest.size(), kJudgedTogether)));
    n_evaluated_ += logits_.size();
  }

  std::span<const int32_t> tokens_;          // the window's
  size_t n_evaluated_ = 0;                   // of these
  std::vector<std::vector<double>> logits_;  // of the last of these
  reference::AgreementMeter meter_;
  Score score_;
};

// The model itself, in float64.
class Reference final : public Judge {
 public:
  Reference(const std::string &path, KvType kv) : model_(load(path)), evaluator_(model_, stored_as(kv)) {}

  const char *name() const override { return "reference"; }

 private:
  static model::Model load(const std::string &path) {
    auto model = model::load_model(path);
    if (!model) throw Failure(model.error().message);
    return std::move(*model);
  }
  static reference::KvType stored_as(KvType kv) {
    return kv == KvType::kQ8_0  ? reference::KvType::kQ8_0
           : kv == KvType::kF32 ? reference::KvType::kF32
                                : reference::KvType::kF16;
  }

  void restart() override { evaluator_.truncate(0); }
  std::vector<std::vector<double>> evaluate(std::span<const int32_t> tokens) override {
    auto logits = evaluator_.steps(tokens);
    if (!logits) throw Failure(logits.error().message);
    return std::move(*logits);
  }

  model::Model model_;
  reference::Evaluator evaluator_;
};

// Throws Failure where token ids of the one mean something else to the other.
void check_same_vocabulary(const std::string &path, const std::string &other_path) {
  const text::Tokenizer tokenizer = load_tokenizer(path), other = load_tokenizer(other_path);
  const auto refuse = [&](const std::string &found) {
    throw Failure(fmt::format("{}: expected the vocabulary of {}, found {}", other_path, path, found));
  };
  if (other.size() != tokenizer.size())
    refuse(fmt::format("one of {} tokens instead of {}", other.size(), tokenizer.size()));
  const std::string difference = text::first_difference(tokenizer, other);
  if (!difference.empty()) refuse(difference);
}

void check_window(uint32_t window, const Engine &engine, const std::string &model) {
  if (const uint32_t context = engine.model().context; window > context)
    throw UsageError(fmt::format("--window: expected at most {}, the context of {}, found {}", context, model, window));
}

// Another model with the same vocabulary.
class OtherModel final : public Judge {
 public:
  // Throws Failure where it has logits of other tokens than `vocabulary`, UsageError where it does not hold a window.
  OtherModel(const EngineOptions &options, uint32_t vocabulary, uint32_t window)
      : engine_(load(options)), session_(engine_.new_session()) {
    if (const uint32_t found = engine_.model().vocabulary; found != vocabulary)
      throw Failure(fmt::format("{}: expected logits of {} tokens, found {}", options.model, vocabulary, found));
    check_window(window, engine_, options.model);
  }

  const char *name() const override { return "against"; }

 private:
  static Engine load(const EngineOptions &options) try {
    return load_engine(options);
  } catch (const EngineError &error) {
    throw EngineError(error.kind(), fmt::format("--against {}: {}", options.model, error.what()));
  }

  void restart() override { session_.truncate(0); }
  std::vector<std::vector<double>> evaluate(std::span<const int32_t> tokens) override {
    std::vector<std::vector<double>> rows;
    session_.evaluate(tokens, [&](size_t, std::span<const float> logits) {
      check_logits(logits);
      rows.emplace_back(logits.begin(), logits.end());
    });
    return rows;
  }

  Engine engine_;
  Session session_;
};

// Hands out what follows each of a window's tokens, of which the first is the text's `first`.
using Predict = std::function<void(size_t first, std::span<const int32_t> tokens, const LogitsCallback &)>;

Predict predict_by(Session &session) {
  return [&session](size_t, std::span<const int32_t> tokens, const LogitsCallback &callback) {
    session.truncate(0);
    session.evaluate(tokens, callback);
  };
}

Predict predict_by(LogitsFile &file) {
  return [&file](size_t first, std::span<const int32_t> tokens, const LogitsCallback &callback) {
    for (size_t i = 0; i < tokens.size(); ++i) callback(i, file.row(first + i));
  };
}

// Windows without overlap, each from an empty cache: a window of n tokens predicts its last n - 1. Throws Failure where
// logits are no distribution.
Score score_windows(const Predict &predict, std::span<const int32_t> tokens, size_t window, Judge *judge) {
  Score score;
  ProgressBar bar("perplexity");
  for (size_t first = 0; first < tokens.size(); first += window) {
    const auto piece = tokens.subspan(first, std::min(window, tokens.size() - first));
    if (piece.size() < 2) break;
    if (judge) judge->begin_window(piece.first(piece.size() - 1));
    predict(first, piece.first(piece.size() - 1), [&](size_t i, std::span<const float> logits) {
      const double likelihood = negative_log_likelihood(logits, piece[i + 1]);
      if (std::isnan(likelihood)) check_logits(logits);
      score.sum += likelihood;
      ++score.predicted;
      if (judge) judge->predict(i, piece[i + 1], logits);
      bar.update(first + i, tokens.size());
    });
  }
  return score;
}

nlohmann::ordered_json findings_of(const Judge &judge) {
  const reference::Agreement agreement = judge.agreement();
  return {{"perplexity", judge.score().perplexity()},
          {"same_choice", agreement.same_choice},
          {"mean_divergence", agreement.mean_divergence},
          {"largest_lead_lost", agreement.largest_lead_lost},
          {"logit_error", agreement.logit_error}};
}

std::string describe(const Judge &judge) {
  const reference::Agreement agreement = judge.agreement();
  return fmt::format(
      "{:<10} {:.4f}; the same likeliest token {} times ({:.2f} %), elsewhere a lead of at most {:.3f} lost;\n"
      "           KL divergence {:.3g} nats per token, relative error of the logits {:.3g}\n",
      judge.name(), judge.score().perplexity(), agreement.same_choice,
      100 * static_cast<double>(agreement.same_choice) / static_cast<double>(agreement.predictions),
      agreement.largest_lead_lost, agreement.mean_divergence, agreement.logit_error);
}

// As many tokens as all these models know. What is wrong with a file is for its engine to say.
uint32_t known_context(std::span<const std::string> models) {
  uint32_t context = std::numeric_limits<uint32_t>::max();
  for (const std::string &path : models) {
    if (const auto model = model::load_model(path)) context = std::min(context, model->config.context);
  }
  return context;
}

// Tokens of a window, and of the context, which holds one where nothing else is asked for.
struct Sizes {
  uint32_t window, context;
};

Sizes sizes_for(std::optional<uint64_t> asked_window, uint32_t asked_context, std::span<const std::string> models) {
  if (asked_context == 1) throw UsageError("--context: expected at least 2, a window's fewest tokens, found 1");
  const uint32_t known = known_context(models);
  const uint32_t most = asked_context > 0 ? std::min(asked_context, known) : known;
  const uint32_t window =
      asked_window ? static_cast<uint32_t>(*asked_window) : std::max(2u, std::min(kDefaultWindow, most));
  return {window, asked_context > 0 ? asked_context : std::min(window, known)};
}

}  // namespace

int perplexity_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options(
      "perplexity", "[-m FILE] -f TEXTFILE [OPTIONS]",
      "Measures how well a model predicts a text: the exponential of the mean negative log-likelihood.\n"
      "Windows do not overlap; each starts from an empty cache, without BOS; a window of N tokens predicts\n"
      "N - 1. Special tokens that are spelled out in the text are plain text.\n"
      "JSON: {\"perplexity\", \"nll\" (the mean, in nats), \"predicted\" (tokens), \"window\"}.\n"
      "--reference holds every prediction against the float64 reference's, on all cores: two take half a second\n"
      "for a token of a 1.7B model. --against holds them against another model's, such as the one that this one\n"
      "was quantized from. JSON: \"reference\" or \"against\": {\"perplexity\", \"same_choice\"\n"
      "(predictions with the same likeliest token), \"mean_divergence\" (KL, in nats), \"largest_lead_lost\"\n"
      "(of the other's likeliest token over its next, in logits, where this one has another), \"logit_error\"\n"
      "(relative L2)}. null: infinite, of logits that rule a token out.");
  add_engine_options(options, "the window");
  add_text_options(options);
  options.value("window", "N", "tokens in a window (512, or what the model knows or -c says if that is less)");
  options.value("tokens", "N", "use the first N tokens of the text (all)");
  options.flag("reference", "compare with the float64 reference");
  options.value("against", "FILE", "compare with another model of the same vocabulary, on the same backend");
  options.value("logits", "FILE",
                "take the predictions of another program instead: float32, a row of the vocabulary for each token");
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const auto asked_window = arguments->count("window", 2);
  const uint64_t most_tokens = arguments->count("tokens", 2, UINT64_MAX).value_or(UINT64_MAX);
  const auto text = read_text(*arguments);
  if (!text) throw UsageError("no text: expected -f FILE, -p TEXT or '-f -' for stdin");
  const auto other_model = arguments->text("against");
  if (other_model && arguments->flag("reference")) throw UsageError("expected --reference or --against, found both");

  EngineOptions engine_settings = engine_options(*arguments, terminal);
  std::vector<std::string> models = {engine_settings.model};
  if (other_model) models.push_back(*other_model);
  const Sizes sizes = sizes_for(asked_window, engine_settings.context, models);
  const uint32_t window = sizes.window;
  engine_settings.context = sizes.context;
  const Engine engine = load_engine(engine_settings);
  check_window(window, engine, engine_settings.model);
  std::vector<int32_t> tokens = engine.tokenize(*text, false);
  if (tokens.size() > most_tokens) tokens.resize(most_tokens);
  if (tokens.size() < 2) throw Failure("the text has fewer than two tokens: there is nothing to predict");
  std::optional<LogitsFile> file;
  if (const auto path = arguments->text("logits")) file.emplace(*path, tokens.size(), engine.model().vocabulary);
  std::unique_ptr<Judge> judge;
  if (arguments->flag("reference")) judge = std::make_unique<Reference>(engine_settings.model, engine_settings.kv);
  if (other_model) {
    check_same_vocabulary(engine_settings.model, *other_model);
    engine_settings.model = *other_model;
    judge = std::make_unique<OtherModel>(engine_settings, engine.model().vocabulary, window);
  }
  Session session = engine.new_session();
  const Predict predict = file ? predict_by(*file) : predict_by(session);
  const Score score = advising(engine, [&] { return score_windows(predict, tokens, window, judge.get()); });
  if (arguments->flag("json")) {
    nlohmann::ordered_json result = {
        {"perplexity", score.perplexity()}, {"nll", score.mean()}, {"predicted", score.predicted}, {"window", window}};
    if (judge) result[judge->name()] = findings_of(*judge);
    terminal.out.write_json(result);
  } else {
    terminal.out.write(fmt::format("perplexity {:.4f} ({:.5f} nats per token, {} predicted, windows of {})\n",
                                   score.perplexity(), score.mean(), counted(score.predicted, "token"), window));
    if (judge) terminal.out.write(describe(*judge));
  }
  return kSuccess;
}

}  // namespace bonsai::cli
