#include "host/cli/terminal_abilities.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace bonsai::cli {
namespace {

std::string_view variable(const char *name) {
  const char *value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool obeys_escapes(int file) {
  const std::string_view term = variable("TERM");
  return !term.empty() && term != "dumb" && ::isatty(file) == 1;
}

bool may_be_styled(int file) { return variable("NO_COLOR").empty() && obeys_escapes(file); }

}  // namespace bonsai::cli
