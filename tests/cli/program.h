// Runs the built `bonsai` program, as a shell would.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace bonsai::cli {

struct Outcome {
  int exit_code = -1;  // 128 + the signal where one ended the program
  std::string out, err;
};

// Runs to the end, with `input` on stdin.
Outcome run_program(const std::vector<std::string> &arguments, const std::string &input = "");
// The same with stdout going to a file, and nothing captured from it.
Outcome run_program_into(const std::string &path, const std::vector<std::string> &arguments);

// A line of sh, in which "$@" stands for the program and its arguments: its streams may be what no other test has.
Outcome run_in_shell(const std::string &script, const std::vector<std::string> &arguments,
                     const std::string &input = "");

// A program that is still running; its stdout is a pipe of one page.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string> &arguments);
  ~RunningProgram();
  RunningProgram(const RunningProgram &) = delete;
  RunningProgram &operator=(const RunningProgram &) = delete;

  void wait_for_output() const;  // until the first byte can be read
  std::string read_some(size_t most) const;
  void close_output();
  void send_signal(int signal) const;
  Outcome finish();  // reads the rest and waits for the end

 private:
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
};

// Where the build put things.
std::string seedling();
std::string backend_file(const std::string &name);  // "cpu": the path of its shared object

// A file of the running test's own, in the build folder.
std::string write_file(const std::string &name, const std::string &content);
std::string read_file(const std::string &path);
// An empty folder, likewise.
std::string make_folder(const std::string &name);
// The names of the files in it, sorted.
std::vector<std::string> files_in(const std::string &folder);

}  // namespace bonsai::cli
