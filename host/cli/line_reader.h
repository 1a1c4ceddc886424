// Lines that a person types, or that come through a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace bonsai::cli {

class LineReader {
 public:
  virtual ~LineReader() = default;

  // The first line of a message or one that it goes on with, without its end; nullopt: there are no more, or
  // was_discarded(). The prompt is for a person at a terminal. Throws Failure where stdin cannot be read.
  enum class Place { kFirst, kFurther };
  virtual std::optional<std::string> read(const std::string &prompt, Place place) = 0;

  // Whether the last read() ended by Ctrl-C in the middle of a message: nothing of it is wanted any more.
  virtual bool was_discarded() const = 0;

  // What a person may call back with the arrow keys.
  virtual void remember(const std::string &line) = 0;

  virtual bool is_terminal() const = 0;

  // With editing and history (libedit) if stdin and stderr are terminals; there Ctrl-C clears the line, leaves where
  // the line is empty, and discards a message of which there are lines already. A text that is pasted is one line, line
  // ends and all, where the terminal marks pasted texts. Prompt and echo go to stderr. Else lines are read as they
  // come.
  static std::unique_ptr<LineReader> open();
};

// What a person says next: a line, or several. At a terminal a backslash at a line's end goes on with the next line,
// and a line that begins with """ opens a text of several lines, up to one that ends with """. A pasted text of several
// lines is one as it stands. One that is discarded on the way counts for nothing: the prompt comes again. nullopt:
// there is no more.
std::optional<std::string> read_message(LineReader &reader, const std::string &prompt);

}  // namespace bonsai::cli
