#include "tests/cli/program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace bonsai::cli {
namespace {

// A file without a name that both sides write and read by descriptor.
int temporary_file(const std::string &content = "") {
  std::string name = testing::TempDir() + "bonsai-cli-XXXXXX";
  const int file = ::mkstemp(name.data());
  if (file < 0) throw std::runtime_error("cannot make a temporary file: " + name);
  ::unlink(name.c_str());
  if (::write(file, content.data(), content.size()) != static_cast<ssize_t>(content.size()))
    throw std::runtime_error("cannot write a temporary file");
  ::lseek(file, 0, SEEK_SET);
  return file;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 65536> piece;
  for (ssize_t n; (n = ::read(file, piece.data(), piece.size())) > 0;)
    text.append(piece.data(), static_cast<size_t>(n));
  return text;
}

std::string read_from_start(int file) {
  ::lseek(file, 0, SEEK_SET);
  std::string text = read_all(file);
  ::close(file);
  return text;
}

const std::string kProgram = BONSAI_BINARY_DIR "/bin/bonsai";

// `command` begins with the path of what is run.
pid_t spawn_command(const std::vector<std::string> &command, int in, int out, int err) {
  const std::string &program = command.front();
  std::vector<char *> argv;
  for (const std::string &argument : command) argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + program);
  return pid;
}

pid_t spawn(std::vector<std::string> arguments, int in, int out, int err) {
  arguments.insert(arguments.begin(), kProgram);
  return spawn_command(arguments, in, out, err);
}

int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Outcome run_command(const std::vector<std::string> &command, const std::string &input) {
  const int in = temporary_file(input), out = temporary_file(), err = temporary_file();
  Outcome outcome;
  outcome.exit_code = wait_for(spawn_command(command, in, out, err));
  ::close(in);
  outcome.out = read_from_start(out);
  outcome.err = read_from_start(err);
  return outcome;
}

// Of the running test's own.
std::filesystem::path own_path(const std::string &name) {
  const std::filesystem::path directory = BONSAI_BINARY_DIR "/tests/cli-files";
  std::filesystem::create_directories(directory);
  const testing::TestInfo *test = testing::UnitTest::GetInstance()->current_test_info();
  return directory / (std::string(test->name()) + "-" + name);
}

}  // namespace

Outcome run_program(const std::vector<std::string> &arguments, const std::string &input) {
  std::vector<std::string> command = arguments;
  command.insert(command.begin(), kProgram);
  return run_command(command, input);
}

Outcome run_in_shell(const std::string &script, const std::vector<std::string> &arguments, const std::string &input) {
  std::vector<std::string> command = arguments;
  command.insert(command.begin(), {"/bin/sh", "-c", script, "sh", kProgram});
  return run_command(command, input);
}

Outcome run_program_into(const std::string &path, const std::vector<std::string> &arguments) {
  const int in = temporary_file(), out = ::open(path.c_str(), O_WRONLY | O_CLOEXEC), err = temporary_file();
  Outcome outcome;
  outcome.exit_code = wait_for(spawn(arguments, in, out, err));
  ::close(in);
  ::close(out);
  outcome.err = read_from_start(err);
  return outcome;
}

RunningProgram::RunningProgram(const std::vector<std::string> &arguments) : err_(temporary_file()) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
  ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  const int in = temporary_file();
  pid_ = spawn(arguments, in, ends[1], err_);
  ::close(in);
  ::close(ends[1]);
  out_ = ends[0];
}

RunningProgram::~RunningProgram() {
  close_output();
  if (err_ >= 0) ::close(err_);
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  wait_for(pid_);
}

void RunningProgram::wait_for_output() const {
  pollfd waiting{out_, POLLIN, 0};
  ::poll(&waiting, 1, -1);
}

std::string RunningProgram::read_some(size_t most) const {
  std::string text(most, '\0');
  const ssize_t n = ::read(out_, text.data(), most);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

void RunningProgram::close_output() {
  if (out_ >= 0) ::close(out_);
  out_ = -1;
}

void RunningProgram::send_signal(int signal) const { ::kill(pid_, signal); }

Outcome RunningProgram::finish() {
  Outcome outcome;
  if (out_ >= 0) outcome.out = read_all(out_);
  outcome.exit_code = wait_for(pid_);
  pid_ = -1;
  outcome.err = read_from_start(err_);
  err_ = -1;
  return outcome;
}

std::string seedling() { return BONSAI_BINARY_DIR "/share/bonsai/seedling-q1_0.gguf"; }

std::string backend_file(const std::string &name) { return BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_" + name + ".so"; }

std::string write_file(const std::string &name, const std::string &content) {
  const std::string path = own_path(name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

std::string make_folder(const std::string &name) {
  const std::filesystem::path folder = own_path(name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

std::vector<std::string> files_in(const std::string &folder) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace bonsai::cli
