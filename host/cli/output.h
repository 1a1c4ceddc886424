// Standard output, unbuffered and checked.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace bonsai::cli {

// The reader of our output has gone (`bonsai run | head -1`), or the terminal was closed: the program ends quietly.
struct OutputClosed {};

class Output {
 public:
  // Writes everything before it returns. Throws OutputClosed, or Failure on any other error (a full disk, say).
  // prepare_standard_streams() keeps both from being a signal that ends the process.
  void write(std::string_view text);

  // One line.
  void write_json(const nlohmann::ordered_json &json);

  // Before something else is said where stdout is a terminal: what was written last may not have ended its line.
  void end_line_at_terminal();

 private:
  std::atomic<bool> is_in_line_ = false;  // any thread may have something to say
};

// What a command has found out decides its exit code, also where nobody reads on.
template <class Write>
void write_if_read(Write write) {
  try {
    write();
  } catch (const OutputClosed &) {
  }
}

}  // namespace bonsai::cli
