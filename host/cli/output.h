// Standard output, unbuffered and checked.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace bonsai::cli {

// The reader of our output has gone (`bonsai run | head -1`): the program ends quietly.
struct OutputClosed {};

class Output {
 public:
  // Writes everything before it returns. Throws OutputClosed, or Failure on any other error (a full disk, say).
  // prepare_standard_streams() keeps both from being a signal that ends the process.
  void write(std::string_view text);

  // One line.
  void write_json(const nlohmann::ordered_json &json);
};

}  // namespace bonsai::cli
