#include "host/cli/speculation_options.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "host/cli/model_options.h"

namespace bonsai::cli {

void add_speculation_options(Options &options) {
  options.flag("lookup", "guess at tokens that followed the last ones earlier in the text; the text stays the same");
  options.value("draft", "FILE", "a small model of the same vocabulary guesses at tokens; the text stays the same");
}

void read_speculation_options(const Arguments &arguments, EngineOptions engine, GenerateOptions &options) {
  options.lookup = arguments.flag("lookup");
  const auto draft = arguments.text("draft");
  if (!draft) return;
  engine.model = *draft;
  try {
    options.draft = std::make_shared<const Engine>(load_engine(std::move(engine)));
  } catch (const EngineError &error) {
    throw EngineError(error.kind(), fmt::format("draft model: {}", error.what()));
  }
}

std::string speculation_summary(const GenerationStats &stats, const GenerateOptions &options) {
  if ((!options.lookup && !options.draft) || stats.decode_passes == 0) return "";
  const double accepted = stats.proposed_tokens == 0 ? 0 : 100.0 * stats.accepted_tokens / stats.proposed_tokens;
  std::string summary = fmt::format("{} of {} guesses right ({:.1f} %), {:.2f} tokens a pass", stats.accepted_tokens,
                                    stats.proposed_tokens, accepted, 1.0 * stats.decode_steps / stats.decode_passes);
  if (stats.seconds_one_by_one > 0 && stats.decode_seconds > 0)
    summary += fmt::format(", {:.2f} times as fast as one by one", stats.seconds_one_by_one / stats.decode_seconds);
  return summary;
}

}  // namespace bonsai::cli
