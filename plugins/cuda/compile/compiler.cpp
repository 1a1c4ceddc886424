#include "plugins/cuda/compile/compiler.h"

#include <algorithm>
#include <string_view>

#include "plugins/common/failure.h"

namespace bonsai::cuda {
namespace {

using plugin::Failure;

// Raised when entries of older versions would be read wrong.
constexpr std::string_view kDigestVersion = "bonsai kernels 3";

bool is_header(const KernelFile &file) { return !file.name.ends_with(".cu"); }

const KernelFile &main_file(const CompileJob &job) {
  const auto found = std::find_if(job.files.begin(), job.files.end(),
                                  [&](const KernelFile &file) { return file.name == job.unit.file; });
  if (found == job.files.end()) throw Failure(BONSAI_INTERNAL, fmt::format("no kernel file {}", job.unit.file));
  return *found;
}

std::vector<const char *> pointers(const std::vector<std::string> &strings) {
  std::vector<const char *> all;
  for (const std::string &string : strings) all.push_back(string.c_str());
  return all;
}

class Program {
 public:
  Program(const Nvrtc &nvrtc, const CompileJob &job) : nvrtc_(nvrtc) {
    std::vector<const char *> texts, names;
    for (const KernelFile &file : job.files) {
      if (!is_header(file)) continue;
      texts.push_back(file.text.data());
      names.push_back(file.name.data());
    }
    const KernelFile &main = main_file(job);
    nvrtc.check(nvrtc.nvrtcCreateProgram(&program_, main.text.data(), main.name.data(), static_cast<int>(texts.size()),
                                         texts.data(), names.data()),
                "nvrtcCreateProgram");
  }
  ~Program() { nvrtc_.nvrtcDestroyProgram(&program_); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  nvrtcResult compile(const std::vector<std::string> &options) {
    const std::vector<const char *> arguments = pointers(options);
    return nvrtc_.nvrtcCompileProgram(program_, static_cast<int>(arguments.size()), arguments.data());
  }

  std::string log() const {
    return read(nvrtc_.nvrtcGetProgramLogSize, nvrtc_.nvrtcGetProgramLog, "nvrtcGetProgramLog");
  }
  std::string ptx() const { return read(nvrtc_.nvrtcGetPTXSize, nvrtc_.nvrtcGetPTX, "nvrtcGetPTX"); }
  std::string cubin() const {
    size_t bytes = 0;
    nvrtc_.check(nvrtc_.nvrtcGetCUBINSize(program_, &bytes), "nvrtcGetCUBINSize");
    std::string cubin(bytes, '\0');
    if (bytes > 0) nvrtc_.check(nvrtc_.nvrtcGetCUBIN(program_, cubin.data()), "nvrtcGetCUBIN");
    return cubin;
  }

 private:
  // A text, whose size counts the NUL.
  template <class Size, class Get>
  std::string read(Size size, Get get, const char *call) const {
    size_t bytes = 0;
    nvrtc_.check(size(program_, &bytes), call);
    std::string text(bytes, '\0');
    if (bytes > 0) nvrtc_.check(get(program_, text.data()), call);
    return text.substr(0, text.find('\0'));
  }

  const Nvrtc &nvrtc_;
  nvrtcProgram program_ = nullptr;
};

// Of the texts alone, which are the same for all architectures. Digests of theirs are hashed and not they themselves:
// every unit has all the headers, and a start looks for many units.
Digest digest_of_texts(const CompileJob &job) {
  Sha256 hash;
  const auto add_file = [&](const KernelFile &file) {
    hash.add_field(file.name);
    hash.add_field(file.sha256.empty() ? hex(sha256(file.text)) : file.sha256);
  };
  add_file(main_file(job));
  for (const KernelFile &file : job.files) {
    if (is_header(file)) add_file(file);
  }
  return hash.finish();
}

Digest digest_with_options(const Digest &texts, const CompileJob &job) {
  Sha256 hash;
  hash.add_field(kDigestVersion);
  for (const std::string &option : compile_options(job)) hash.add_field(option);
  hash.add({reinterpret_cast<const char *>(texts.data()), texts.size()});
  return hash.finish();
}

// The first line that speaks of an error, else the first line.
std::string first_error(std::string_view log) {
  const std::string_view first = log.substr(0, log.find('\n'));
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    if (line.find("error") != std::string_view::npos) return std::string(line);
    log.remove_prefix(std::min(log.size(), line.size() + 1));
  }
  return std::string(first);
}

}  // namespace

std::vector<std::string> compile_options(const CompileJob &job) {
  std::vector<std::string> options = {
      "-std=c++20",
      "-fmad=false",      // a fused multiply-add happens where the source says so, as on the CPU
      "-default-device",  // functions need no __device__
      "-arch=" + job.architecture.name,
  };
  for (const std::string &define : job.unit.defines) options.push_back("-D" + define);
  options.insert(options.end(), job.extra_options.begin(), job.extra_options.end());
  return options;
}

Digest digest_of(const CompileJob &job) { return digest_with_options(digest_of_texts(job), job); }

std::vector<Digest> digests_of(const CompileJob &job, std::span<const Architecture> architectures) {
  const Digest texts = digest_of_texts(job);
  std::vector<Digest> digests;
  for (const Architecture &architecture : architectures) {
    digests.push_back(digest_with_options(
        texts,
        {.unit = job.unit, .architecture = architecture, .files = job.files, .extra_options = job.extra_options}));
  }
  return digests;
}

std::vector<std::string> kernel_names(std::string_view ptx) {
  constexpr std::string_view kEntry = ".entry ";
  std::vector<std::string> names;
  while (!ptx.empty()) {
    const std::string_view line = ptx.substr(0, ptx.find('\n'));
    ptx.remove_prefix(std::min(ptx.size(), line.size() + 1));
    const size_t at = line.find(kEntry);
    if (!line.starts_with('.') || at == std::string_view::npos) continue;
    const std::string_view name = line.substr(at + kEntry.size());
    names.emplace_back(name.substr(0, name.find('(')));
  }
  return names;
}

Binary compile(const Nvrtc &nvrtc, const CompileJob &job, std::string *log) {
  Program program(nvrtc, job);
  const nvrtcResult result = program.compile(compile_options(job));
  const std::string said = program.log();
  if (log) *log = said;
  if (result != NVRTC_SUCCESS) {
    throw Failure(BONSAI_INTERNAL,
                  fmt::format("{} does not compile for {}: {}: {}", job.unit.name, job.architecture.name,
                              nvrtc.nvrtcGetErrorString(result), first_error(said)));
  }
  return {.ptx = program.ptx(), .cubin = job.architecture.is_real() ? program.cubin() : std::string()};
}

}  // namespace bonsai::cuda
