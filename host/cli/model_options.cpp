#include "host/cli/model_options.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "core/base/program_path.h"
#include "core/base/standard_streams.h"
#include "core/base/utf8.h"
#include "core/gguf/parts.h"
#include "core/text/template/chat_template.h"
#include "host/cli/progress.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

constexpr uint32_t kMostThreads = 1024;  // that cpu.threads takes

// The tiny model that comes with the program.
std::string seedling_path() {
  const std::filesystem::path program = program_path();
  if (program.empty()) throw Failure("no model: -m FILE was not given, and the program's own path is not known");
  const auto path = program.parent_path().parent_path() / "share" / "bonsai" / "seedling-q1_0.gguf";
  std::error_code ignored;  // what cannot be looked at is not there
  if (!std::filesystem::exists(path, ignored))
    throw Failure(fmt::format("no model: -m FILE was not given, and there is no seedling at {}", path.string()));
  return path.string();
}

KvType parse_kv(const std::string &name) {
  if (name == "f16") return KvType::kF16;
  if (name == "q8_0") return KvType::kQ8_0;
  if (name == "f32") return KvType::kF32;
  throw UsageError(fmt::format("--kv: expected f16, q8_0 or f32, found {}", bonsai::quoted(name)));
}

std::pair<std::string, std::string> parse_backend_option(const std::string &text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw UsageError(fmt::format("--backend-opt: expected KEY=VALUE, found {}", bonsai::quoted(text)));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// A line of its own, also in the middle of a text. Backends call this: nothing may be thrown through them.
void log_line(Terminal &terminal, spdlog::level::level_enum level, std::string_view line) {
  if (!terminal.log.should_log(level)) return;
  try {
    terminal.out.end_line_at_terminal();
  } catch (...) {
    // Whoever writes the text finds the same.
  }
  try {
    terminal.log.log(level, bonsai::printable(line));
  } catch (...) {
    // There is no memory for it.
  }
}

// The engine would not know which file to blame.
std::string read_template(const std::string &file) {
  std::string text = read_file(file);
  if (text.empty()) throw Failure(file + ": is empty, expected a chat template");
  if (const auto parsed = jinja::ChatTemplate::parse(text); !parsed)
    throw Failure(fmt::format("{}: {}", file == "-" ? "stdin" : file, parsed.error().message));
  return text;
}

uint32_t context_option(const Arguments &arguments) {
  const auto given = arguments.count_or_all("context", 0, EngineOptions::kWholeContext);
  if (!given) return 0;
  return *given == 0 ? EngineOptions::kWholeContext : static_cast<uint32_t>(*given);
}

}  // namespace

void add_model_option(Options &options) {
  options.value("model,m", "FILE", "the model, a GGUF file (default: the seedling that comes with the program)");
}

void add_engine_options(Options &options, const std::string &context_default) {
  add_model_option(options);
  const std::string help =
      "most tokens of prompt and text together; 0: all that the model knows (default: " + context_default + ")";
  options.value("context,c", "N", help.c_str());
  options.value("kv", "TYPE", "keys and values are stored as f16 (default), q8_0 or f32");
  options.value("backend", "NAME", "auto (default), a backend's name, or the path of a shared object");
  options.flag("backend-strict", "that backend or an error; without this the CPU takes over with a warning");
  options.values("backend-opt", "KEY=VALUE",
                 "an option of the backend, see 'bonsai backends', or device=N, its device (0); may be repeated");
  options.value("threads,t", "N", "threads of the CPU backend, at most 1024, as --backend-opt cpu.threads=N");
}

void add_template_option(Options &options) {
  options.value("chat-template-file", "FILE", "the chat template, in Jinja, instead of the model's own");
}

std::string model_file(const Arguments &arguments) {
  const auto model = arguments.text("model");
  const auto files = arguments.texts("model-file");
  if (model && !files.empty()) throw UsageError("the model is given twice: by -m and as an argument");
  if (!files.empty()) return files.front();
  return model ? *model : seedling_path();
}

ModelFiles::ModelFiles(const Arguments &arguments) : model_(gguf::paths_of_parts(model_file(arguments))) {
  if (const auto draft = arguments.text("draft")) draft_ = gguf::paths_of_parts(*draft);
}

void ModelFiles::check_spared(const std::string &path, std::string_view what) const {
  for (const auto &[name, files] : {std::pair("model", &model_), std::pair("draft", &draft_)}) {
    const bool is_one = std::any_of(files->begin(), files->end(), [&](const std::string &file) {
      std::error_code ignored;  // neither need exist
      return std::filesystem::equivalent(path, file, ignored);
    });
    if (is_one) throw Failure(fmt::format("{}: is the {}, expected another file for the {}", path, name, what));
  }
}

std::string model_path(const Arguments &arguments, const Terminal &terminal) {
  std::string path = model_file(arguments);
  const bool is_named = arguments.text("model") || !arguments.texts("model-file").empty();
  if (!is_named && terminal.log.level() != spdlog::level::off)
    print_to_stderr("no -m FILE: using the seedling, {}\n", bonsai::printable(path));
  return path;
}

EngineOptions engine_options(const Arguments &arguments, Terminal &terminal) {
  EngineOptions options;
  options.context = context_option(arguments);
  options.kv = parse_kv(arguments.text("kv").value_or("f16"));
  options.backend = arguments.text("backend").value_or("auto");
  options.backend_strict = arguments.flag("backend-strict");
  for (const std::string &option : arguments.texts("backend-opt"))
    options.backend_options.push_back(parse_backend_option(option));
  options.threads = static_cast<uint32_t>(arguments.count("threads", 1, kMostThreads).value_or(0));
  options.log = [&terminal](LogLevel level, std::string_view line) { log_line(terminal, spdlog_level(level), line); };
  if (const auto file = arguments.text("chat-template-file")) options.chat_template = read_template(*file);
  options.model = model_path(arguments, terminal);
  return options;
}

std::string more_context(const Engine &engine) {
  const ModelInfo model = engine.model();
  if (model.context >= model.trained_context) return "";
  return fmt::format(": -c gives more, up to the model's {}", model.trained_context);
}

Engine load_engine(EngineOptions options) {
  const auto bar = std::make_shared<ProgressBar>("loading");
  options.progress = [&bar = *bar](uint64_t done, uint64_t total) { bar.update(done, total); };
  // What the backend does first may take minutes: CUDA compiles its kernels. The log outlives the bar.
  options.log = [log = options.log, shown = std::weak_ptr(bar)](LogLevel level, std::string_view line) {
    const auto bar = shown.lock();
    if (bar) bar->erase();
    log(level, line);
    if (bar && level == LogLevel::kInfo) bar->note(line);
  };
  return Engine::load(options);
}

}  // namespace bonsai::cli
