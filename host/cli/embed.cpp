// `bonsai embed`: one vector for each text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/utf8.h"
#include "host/cli/command.h"
#include "host/cli/model_options.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

Options embed_options() {
  Options options("embed", "[-m FILE] [-p TEXT... | -f FILE] [OPTIONS]",
                  "Turns texts into vectors of length 1, a line with a JSON array for each: texts are alike where the\n"
                  "dot product of theirs is near 1. Special tokens that are spelled out are plain text.\n"
                  "JSON: {\"pooling\": NAME, \"embeddings\": [[as many numbers as the model is wide]]}.");
  add_engine_options(options);
  options.values("prompt,p", "TEXT", "a text; may be repeated. -: from stdin");
  options.value("file,f", "FILE", "a text, from a file; -: from stdin");
  options.flag("lines", "every line of the file or of stdin is a text of its own");
  options.value("pooling", "NAME", "mean (default): of all tokens' hidden states; last: the last token's");
  return options;
}

Pooling pooling_of(const std::string &name) {
  if (name == "mean") return Pooling::kMean;
  if (name == "last") return Pooling::kLast;
  throw UsageError(fmt::format("--pooling: expected mean or last, found {}", bonsai::quoted(name)));
}

// The last line's end begins no further line.
std::vector<std::string> lines_of(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  std::vector<std::string> lines;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

std::vector<std::string> read_texts(const Arguments &arguments) {
  std::vector<std::string> texts = arguments.texts("prompt");
  const auto file = arguments.text("file");
  if (file && !texts.empty()) throw UsageError("-p and -f both give the text: choose one");
  const bool from_stdin = texts == std::vector<std::string>{"-"};
  if (!file && !from_stdin) {
    if (texts.empty()) throw UsageError("no text: expected -p TEXT, -f FILE or '-p -' for stdin");
    if (arguments.flag("lines")) throw UsageError("--lines is for -f FILE and '-p -'");
    return texts;
  }
  std::string text = read_file(file.value_or("-"));
  if (arguments.flag("lines")) return lines_of(std::move(text));
  if (text.ends_with('\n')) text.pop_back();  // which nobody typed on purpose
  return {std::move(text)};
}

}  // namespace

int embed_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  const auto arguments = Arguments::parse(embed_options(), command_line, terminal);
  if (!arguments) return kSuccess;
  const std::string pooling = arguments->text("pooling").value_or("mean");
  const EmbeddingOptions options{.pooling = pooling_of(pooling)};
  const std::vector<std::string> texts = read_texts(*arguments);
  const Engine engine = load_engine(engine_options(*arguments, terminal));
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (size_t i = 0; i < texts.size(); ++i) {
    try {
      const std::vector<float> embedding = engine.embed(texts[i], options);
      if (arguments->flag("json"))
        all.push_back(embedding);
      else
        terminal.out.write(fmt::format("[{}]\n", fmt::join(embedding, ", ")));
    } catch (const EngineError &error) {
      if (texts.size() == 1) throw;
      throw Failure(fmt::format("text {} of {}: {}", i + 1, texts.size(), error.what()));
    }
  }
  if (arguments->flag("json")) terminal.out.write_json({{"pooling", pooling}, {"embeddings", std::move(all)}});
  return kSuccess;
}

}  // namespace bonsai::cli
