// Compiles units of device code with NVRTC.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/cuda/compile/architecture.h"
#include "plugins/cuda/compile/nvrtc.h"
#include "plugins/cuda/compile/sha256.h"
#include "plugins/cuda/compile/source.h"
#include "plugins/cuda/compile/units.h"

namespace bonsai::cuda {

struct CompileJob {
  const Unit &unit;
  const Architecture &architecture;
  std::span<const KernelFile> files = kernel_files();
  std::vector<std::string> extra_options = {};
};

struct Binary {
  std::string ptx;
  std::string cubin = {};  // empty where the architecture is not real
};

// The compiler's options, architecture and defines included.
std::vector<std::string> compile_options(const CompileJob &job);

// Names all that the result depends on, but for NVRTC's version: the options and the texts of the unit's file and of
// every header.
Digest digest_of(const CompileJob &job);
// The same for each of some architectures in the job's place, in less time.
std::vector<Digest> digests_of(const CompileJob &job, std::span<const Architecture> architectures);

// The kernels of a PTX text, in its order.
std::vector<std::string> kernel_names(std::string_view ptx);

// Any thread. Throws INTERNAL with the first error of the compiler's log. `log`, if given, receives all of it.
Binary compile(const Nvrtc &nvrtc, const CompileJob &job, std::string *log = nullptr);

}  // namespace bonsai::cuda
