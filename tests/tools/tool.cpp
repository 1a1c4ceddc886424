#include "tests/tools/tool.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

namespace bonsai::test {

Outcome run_shell(const std::string &script) {
  TemporaryDirectory directory;
  const std::string out = directory.file("out"), err = directory.file("err");
  const std::string command = "PATH=" BONSAI_BINARY_DIR "/bin:$PATH; { " + script + "\n} >" + out + " 2>" + err;
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
  const std::string temporary_file = directory.file("*.part-*");
  return run_shell(command + " & tool=$!\n" +                                                                     //
                   "until ls " + temporary_file + " >/dev/null 2>&1 || ! kill -0 $tool; do sleep 0.01; done\n" +  //
                   "kill -" + signal + " $tool; wait $tool");
}

}  // namespace bonsai::test
