// What is written to the terminal, by whomever in this process.
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>

namespace bonsai::check {

// While it lives, that comes here instead. There is one at a time.
class Printed {
 public:
  Printed();
  ~Printed();
  Printed(const Printed &) = delete;
  Printed &operator=(const Printed &) = delete;

  // So far, and as much as a finding has room for.
  std::string text() const;

 private:
  static constexpr std::array kStreams = {STDOUT_FILENO, STDERR_FILENO};
  const int file_;
  std::array<int, kStreams.size()> streams_;
};

}  // namespace bonsai::check
