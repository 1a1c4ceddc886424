// Which model, on which backend: the options that several commands share.
#pragma once

#include <bonsai/engine.h>

#include <string>
#include <string_view>
#include <vector>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares -m FILE.
void add_model_option(Options &options);
// Declares -m and what chooses and configures a backend. `context_default`: of -c, as the help says it.
void add_engine_options(Options &options, const std::string &context_default = "the model's, at most 4096");
// Declares --chat-template-file, for commands that chat.
void add_template_option(Options &options);

// What -m names, or the first positional argument where a command takes one; else the seedling. Throws UsageError when
// both are given, Failure when the seedling is missing.
std::string model_file(const Arguments &arguments);
// The same, and says on stderr that it is the seedling.
std::string model_path(const Arguments &arguments, const Terminal &terminal);

// The files that a command reads a model from, and the draft that guesses for it, all parts of each.
class ModelFiles {
 public:
  explicit ModelFiles(const Arguments &arguments);

  // Throws Failure where `path`, to which `what` is to be written, is one of them by whatever name.
  void check_spared(const std::string &path, std::string_view what) const;

 private:
  std::vector<std::string> model_, draft_;
};

// Everything that add_engine_options() and add_template_option() declared.
EngineOptions engine_options(const Arguments &arguments, Terminal &terminal);

// Behind the word that a context is full: ": -c gives more, up to the model's 40960"; empty where the model knows no
// more.
std::string more_context(const Engine &engine);

// What `work` returns; an EngineError that says that the context is full comes with more_context().
template <class Work>
auto advising(const Engine &engine, Work work) {
  try {
    return work();
  } catch (const EngineError &error) {
    if (error.kind() != ErrorKind::kContextFull) throw;
    throw EngineError(error.kind(), error.what() + more_context(engine));
  }
}

// Loads with a progress bar on stderr, where that is a terminal.
Engine load_engine(EngineOptions options);

}  // namespace bonsai::cli
