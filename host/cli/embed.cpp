// `bonsai embed`: one vector for each text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/cli/command.h"
#include "host/cli/model_options.h"
#include "host/cli/pooling_option.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

Options embed_options() {
  Options options("embed", "[-m FILE] [-p TEXT... | -f FILE] [OPTIONS]",
                  "Turns texts into vectors of length 1, a line with a JSON array for each: texts are alike where the\n"
                  "dot product of theirs is near 1. Special tokens that are spelled out are plain text.\n"
                  "JSON: {\"pooling\": NAME, \"embeddings\": [[as many numbers as the model is wide]]}.");
  add_engine_options(options);
  options.values("prompt,p", "TEXT", "a text; may be repeated. -: from stdin, at most once");
  options.value("file,f", "FILE", "a text, from a file; -: from stdin");
  options.flag("lines", "every line of the file or of stdin is a text of its own");
  add_pooling_option(options);
  return options;
}

// The last line's end begins no further line.
std::vector<std::string> lines_of(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
  }
  return lines;
}

std::vector<std::string> texts_in(const std::string &file, bool by_line) {
  std::string text = read_file(file);
  if (by_line) return lines_of(std::move(text));
  drop_line_end(text);
  return {std::move(text)};
}

// In the order of the command line; what comes from stdin stands where its '-' does.
std::vector<std::string> read_texts(const Arguments &arguments) {
  const std::vector<std::string> given = arguments.texts("prompt");
  const auto file = arguments.text("file");
  const auto n_stdin = std::count(given.begin(), given.end(), "-");
  const bool by_line = arguments.flag("lines");
  if (file && !given.empty()) throw UsageError("-p and -f both give the text: choose one");
  if (file) return texts_in(*file, by_line);
  if (given.empty()) throw UsageError("no text: expected -p TEXT, -f FILE or '-p -' for stdin");
  if (n_stdin > 1) throw UsageError("stdin is asked for twice: '-p -' can be given once");
  if (by_line && n_stdin == 0) throw UsageError("--lines is for -f FILE and '-p -'");
  std::vector<std::string> texts;
  for (const std::string &text : given) {
    if (text != "-") {
      texts.push_back(text);
      continue;
    }
    const std::vector<std::string> read = texts_in("-", by_line);
    texts.insert(texts.end(), read.begin(), read.end());
  }
  return texts;
}

// Says of which of several texts an error is.
template <class Action>
auto naming_text(size_t i, size_t n, const Action &action) {
  try {
    return action();
  } catch (const EngineError &error) {
    if (n == 1) throw;
    throw Failure(fmt::format("text {} of {}: {}", i + 1, n, error.what()));
  }
}

}  // namespace

int embed_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  const auto arguments = Arguments::parse(embed_options(), command_line, terminal);
  if (!arguments) return kSuccess;
  const EmbeddingOptions options{.pooling = pooling_option(*arguments)};
  const std::vector<std::string> texts = read_texts(*arguments);
  const Engine engine = load_engine(engine_options(*arguments, terminal));
  const auto each_text = [&](const auto &action) {
    for (size_t i = 0; i < texts.size(); ++i)
      naming_text(i, texts.size(), [&] { advising(engine, [&] { action(i); }); });
  };
  std::vector<std::vector<int32_t>> tokens;  // of all, before the first is computed: a text that is none loses nothing
  each_text([&](size_t i) { tokens.push_back(engine.tokenize_to_embed(texts[i])); });
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  each_text([&](size_t i) {
    const std::vector<float> embedding = engine.embed_tokens(tokens[i], options);
    if (arguments->flag("json"))
      all.push_back(embedding);
    else
      terminal.out.write(fmt::format("[{}]\n", fmt::join(embedding, ", ")));
  });
  const Pooling pooling = options.pooling == Pooling::kModel ? engine.model().pooling : options.pooling;
  if (arguments->flag("json"))
    terminal.out.write_json({{"pooling", pooling == Pooling::kMean ? "mean" : "last"}, {"embeddings", std::move(all)}});
  return kSuccess;
}

}  // namespace bonsai::cli
