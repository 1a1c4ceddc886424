// Lines that a person types, or that come through a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace bonsai::cli {

class LineReader {
 public:
  virtual ~LineReader() = default;

  // The next line without its end; nullopt: there are no more. The prompt is for a person at a terminal.
  virtual std::optional<std::string> read(const std::string &prompt) = 0;

  // What a person may call back with the arrow keys.
  virtual void remember(const std::string &line) = 0;

  virtual bool is_terminal() const = 0;

  // With editing and history (libedit) if stdin and stderr are terminals; there Ctrl-C clears the line, and leaves
  // where the line is empty. Prompt and echo go to stderr. Else lines are read as they come.
  static std::unique_ptr<LineReader> open();
};

// What a person says next: a line, or several. A backslash at a line's end goes on with the next line; a line that
// begins with """ opens a text of several lines, up to one that ends with """. nullopt: there is no more.
std::optional<std::string> read_message(LineReader &reader, const std::string &prompt);

}  // namespace bonsai::cli
