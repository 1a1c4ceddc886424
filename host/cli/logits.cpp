// `bonsai logits`: shows what a model expects after some tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/utf8.h"
#include "host/cli/command.h"
#include "host/cli/logit_check.h"
#include "host/cli/model_options.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

constexpr size_t kShown = 10;

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// "1,2,3", with blanks around the numbers and brackets around all: what `tokenize --ids` prints.
std::vector<int32_t> parse_tokens(const std::string &text) {
  std::vector<int32_t> tokens;
  std::string_view rest = without_blanks(text);
  if (rest.starts_with('[') && rest.ends_with(']')) rest = rest.substr(1, rest.size() - 2);
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    const auto token = parse_number<int32_t>(without_blanks(rest.substr(0, comma)));
    if (!token) throw UsageError(fmt::format("--tokens: expected ids as in 1,2,3, found {}", bonsai::quoted(text)));
    tokens.push_back(*token);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
  }
  return tokens;
}

std::string table(const Engine &engine, const std::vector<float> &logits) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t n = std::min(kShown, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                    [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  const double largest = logits[order[0]];
  double total = 0;
  for (const float logit : logits) total += std::exp(logit - largest);
  std::string text = fmt::format("{:>7}  {:>9}  {:>8}  text\n", "id", "logit", "share");
  for (size_t i = 0; i < n; ++i)
    text += fmt::format("{:>7}  {:>9.4f}  {:>6.2f} %  {}\n", order[i], logits[order[i]],
                        100 * std::exp(logits[order[i]] - largest) / total,
                        bonsai::quoted(engine.detokenize({&order[i], 1})));
  return text;
}

}  // namespace

int logits_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options("logits", "[-m FILE] --tokens IDS [OPTIONS]",
                  "Shows the likeliest tokens after some others. No BOS is added.\n"
                  "JSON: {\"tokens\": [ids], \"logits\": [one per token of the vocabulary]}.");
  add_engine_options(options);
  options.value("tokens", "IDS", "token ids: 1,2,3; -: from stdin, as 'tokenize --ids' prints them");
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const auto text = arguments->text("tokens");
  if (!text) throw UsageError("no tokens: expected --tokens 1,2,3");
  const std::vector<int32_t> tokens = parse_tokens(*text == "-" ? read_file("-") : *text);

  const Engine engine = load_engine(engine_options(*arguments, terminal));
  Session session = engine.new_session();
  advising(engine, [&] { session.append_tokens(tokens); });
  const std::vector<float> logits = session.logits();
  check_logits(logits);
  if (arguments->flag("json"))
    terminal.out.write_json({{"tokens", tokens}, {"logits", logits}});
  else
    terminal.out.write(table(engine, logits));
  return kSuccess;
}

}  // namespace bonsai::cli
