#include "tests/tools/tool.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

namespace bonsai::test {

std::string in_quotes(const std::string &path) { return "'" + path + "'"; }

Outcome run_shell(const std::string &script) {
  TemporaryDirectory directory;
  const std::string out = directory.file("out"), err = directory.file("err");
  const std::string command = "PATH=" + in_quotes(BONSAI_BINARY_DIR "/bin") + ":$PATH; { " + script + "\n} >" +
                              in_quotes(out) + " 2>" + in_quotes(err);
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

std::vector<std::string> files_in(const TemporaryDirectory &directory) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(directory.path())) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Outcome run_and_signal(const std::string &command, const std::string &signal, const TemporaryDirectory &directory) {
  const std::string temporary_file = in_quotes(directory.file("")) + "*.part-*";
  return run_shell(command + " & tool=$!\n" +                                                                     //
                   "until ls " + temporary_file + " >/dev/null 2>&1 || ! kill -0 $tool; do sleep 0.01; done\n" +  //
                   "kill -" + signal + " $tool; wait $tool");
}

}  // namespace bonsai::test
