// The fake libnvrtc.so.13. It looks at what would be compiled as far as the real one complains about what the plugin
// controls (headers that are missing, options that do not exist), and makes an image that names the unit, which the
// fake driver finds among the kernels that it has inside.
//
//   BONSAI_FAKE_NVRTC_BROKEN_UNIT  a unit that does not compile
#include <dlfcn.h>
#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/plugins/cuda/fake_driver/image.h"

struct _nvrtcProgram {
  std::string name, source;
  std::map<std::string, std::string> headers;
  std::string log, ptx, cubin;
  bool is_compiled = false;
};

namespace bonsai::fake {
namespace {

constexpr int kMajor = 13, kMinor = BONSAI_FAKE_NVRTC_MINOR;
// What the loader is asked for when something is to be compiled, as the real one asks it; "": nothing.
constexpr const char *kBuiltins = BONSAI_FAKE_NVRTC_BUILTINS;
constexpr std::array<int, 7> kArchitectures = {75, 80, 86, 89, 90, 100, 120};
const std::set<std::string> kPlainOptions = {"-std=c++20", "-fmad=false", "-default-device", "-lineinfo"};

std::mutex programs_mutex;
std::set<nvrtcProgram> programs;  // alive

bool is_alive(nvrtcProgram program) {
  const std::lock_guard lock(programs_mutex);
  return programs.contains(program);
}

// What a condition is worth to NVRTC, of those that kernels put includes behind; both sides of all others count.
struct Condition {
  bool takes_first, takes_second;
};
Condition condition_of(const std::string &line) {
  if (line.starts_with("#ifdef __CUDACC_RTC__")) return {true, false};
  if (line.starts_with("#ifdef BONSAI_EMULATED")) return {false, true};
  return {true, true};
}

// The names that a text includes.
std::vector<std::string> includes_of(const std::string &text) {
  std::vector<std::string> names;
  std::vector<Condition> conditions;  // the first: whether we are to read here
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#if")) {
      conditions.push_back(condition_of(line));
    } else if (line.starts_with("#else") && !conditions.empty()) {
      std::swap(conditions.back().takes_first, conditions.back().takes_second);
    } else if (line.starts_with("#endif") && !conditions.empty()) {
      conditions.pop_back();
    }
    const size_t open = line.find_first_of("\"<");
    if (!line.starts_with("#include") || open == std::string::npos) continue;
    const bool is_read =
        std::all_of(conditions.begin(), conditions.end(), [](const Condition &c) { return c.takes_first; });
    if (is_read) names.push_back(line.substr(open + 1, line.find_first_of("\">", open + 1) - open - 1));
  }
  return names;
}

// Follows includes; an empty string, or the compiler's error.
std::string resolve(const _nvrtcProgram &program, const std::string &file, const std::string &text,
                    std::set<std::string> &seen) {
  for (const std::string &name : includes_of(text)) {
    const auto header = program.headers.find(name);
    if (header == program.headers.end()) {
      return fmt::format("{}: catastrophic error: cannot open source file \"{}\"\n", file, name);
    }
    if (!seen.insert(name).second) continue;
    const std::string error = resolve(program, name, header->second, seen);
    if (!error.empty()) return error;
  }
  return {};
}

// The kernels that a text defines.
std::vector<std::string> kernels_of(const std::string &text) {
  std::vector<std::string> kernels;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("BONSAI_KERNEL(") && !line.starts_with("BONSAI_EARLY_KERNEL(")) continue;
    const size_t first = line.find('(') + 1;
    kernels.push_back(line.substr(first, line.find(',') - first));
  }
  return kernels;
}

struct Options {
  Image image;
  std::string error;
};

Options read_options(const _nvrtcProgram &program, int n, const char *const *options) {
  Options read{.image = {.unit = program.name,
                         .architecture = {},
                         .compiler = 1000 * kMajor + 10 * kMinor,
                         .kernels = kernels_of(program.source)},
               .error = {}};
  for (int i = 0; i < n; ++i) {
    const std::string option = options[i];
    if (option.starts_with("-arch=")) {
      read.image.architecture = option.substr(std::strlen("-arch="));
    } else if (option.starts_with("-D")) {
      read.image.unit.append(1, ' ').append(option, std::strlen("-D"));
    } else if (!kPlainOptions.contains(option) && !option.starts_with("-Xptxas=")) {
      read.error = fmt::format("nvrtc: error: unrecognized option {} found\n", option);
    }
  }
  return read;
}

bool is_known(const std::string &architecture) {
  const int capability = capability_of(architecture);
  for (const int known : kArchitectures) {
    if (known == capability) return true;
  }
  return false;
}

bool has_builtins() { return kBuiltins[0] == '\0' || dlopen(kBuiltins, RTLD_LAZY | RTLD_LOCAL); }

nvrtcResult compile(_nvrtcProgram &program, int n, const char *const *options) {
  if (!has_builtins()) {
    program.log = fmt::format("nvrtc: error: failed to open {}.\n  Make sure that it is installed.\n", kBuiltins);
    return NVRTC_ERROR_BUILTIN_OPERATION_FAILURE;
  }
  const auto [image, error] = read_options(program, n, options);
  program.log = error;
  if (!error.empty()) return NVRTC_ERROR_INVALID_OPTION;
  if (!is_known(image.architecture)) {
    program.log = fmt::format("nvrtc: error: invalid value for --gpu-architecture (-arch): {}\n", image.architecture);
    return NVRTC_ERROR_INVALID_OPTION;
  }
  std::set<std::string> seen;
  program.log = resolve(program, program.name, program.source, seen);
  const char *broken = std::getenv("BONSAI_FAKE_NVRTC_BROKEN_UNIT");
  if (broken && image.unit == broken) program.log = program.name + "(1): error: this unit is to be broken\n";
  if (!program.log.empty()) return NVRTC_ERROR_COMPILATION;
  program.ptx = make_ptx(image);
  program.cubin = image.architecture.starts_with("sm_") ? make_cubin(image) : std::string();
  program.is_compiled = true;
  return NVRTC_SUCCESS;
}

// A text with its NUL.
nvrtcResult give(nvrtcProgram program, const std::string &text, char *to) {
  if (!program->is_compiled) return NVRTC_ERROR_INVALID_PROGRAM;
  if (!to) return NVRTC_ERROR_INVALID_INPUT;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return NVRTC_SUCCESS;
}

}  // namespace
}  // namespace bonsai::fake

using namespace bonsai::fake;

extern "C" {

nvrtcResult nvrtcVersion(int *major, int *minor) {
  *major = kMajor;
  *minor = kMinor;
  return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result) {
  switch (result) {
    case NVRTC_SUCCESS:
      return "NVRTC_SUCCESS";
    case NVRTC_ERROR_INVALID_INPUT:
      return "NVRTC_ERROR_INVALID_INPUT";
    case NVRTC_ERROR_INVALID_PROGRAM:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case NVRTC_ERROR_INVALID_OPTION:
      return "NVRTC_ERROR_INVALID_OPTION";
    case NVRTC_ERROR_COMPILATION:
      return "NVRTC_ERROR_COMPILATION";
    case NVRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    default:
      return "NVRTC_ERROR unknown";
  }
}

nvrtcResult nvrtcGetNumSupportedArchs(int *n) {
  *n = static_cast<int>(kArchitectures.size());
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetSupportedArchs(int *architectures) {
  std::memcpy(architectures, kArchitectures.data(), sizeof kArchitectures);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name, int n_headers,
                               const char *const *headers, const char *const *names) {
  if (!program || !source) return NVRTC_ERROR_INVALID_INPUT;
  auto *made = new _nvrtcProgram{
      .name = name ? name : "default_program", .source = source, .headers = {}, .log = {}, .ptx = {}, .cubin = {}};
  for (int i = 0; i < n_headers; ++i) made->headers[names[i]] = headers[i];
  const std::lock_guard lock(programs_mutex);
  programs.insert(*program = made);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  const std::lock_guard lock(programs_mutex);
  if (!program || programs.erase(*program) == 0) return NVRTC_ERROR_INVALID_PROGRAM;
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int n, const char *const *options) {
  return is_alive(program) ? compile(*program, n, options) : NVRTC_ERROR_INVALID_PROGRAM;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
  if (!is_alive(program)) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  if (!is_alive(program)) return NVRTC_ERROR_INVALID_PROGRAM;
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t *bytes) {
  if (!is_alive(program) || !program->is_compiled) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = program->ptx.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char *ptx) {
  return is_alive(program) ? give(program, program->ptx, ptx) : NVRTC_ERROR_INVALID_PROGRAM;
}

// 0 for an architecture that is not real.
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
  if (!is_alive(program) || !program->is_compiled) return NVRTC_ERROR_INVALID_PROGRAM;
  *bytes = program->cubin.empty() ? 0 : program->cubin.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  return is_alive(program) ? give(program, program->cubin, cubin) : NVRTC_ERROR_INVALID_PROGRAM;
}

// For tests: programs that were not destroyed.
size_t bonsai_fake_nvrtc_alive() {
  const std::lock_guard lock(programs_mutex);
  return programs.size();
}

}  // extern "C"
