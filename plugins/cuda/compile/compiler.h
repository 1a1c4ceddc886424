// Compiles units of device code with NVRTC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plugins/cuda/compile/architecture.h"
#include "plugins/cuda/compile/nvrtc.h"
#include "plugins/cuda/compile/sha256.h"
#include "plugins/cuda/compile/units.h"

namespace bonsai::cuda {

struct Binary {
  std::string ptx;    // NUL-terminated text
  std::string cubin;  // empty where the architecture is not real
  std::string log;    // what the compiler said, not kept in the cache
};

// The compiler's options for a unit, architecture included.
std::vector<std::string> compile_options(const Unit &unit, const Architecture &architecture);

// Names what compiling a unit depends on, but for NVRTC's version: the text of its file and of all headers, and the
// options.
Digest unit_digest(const Unit &unit, const Architecture &architecture);

// Any thread. Throws INTERNAL with the first error of NVRTC's log. `extra` are more options, for tests.
Binary compile(const Nvrtc &nvrtc, const Unit &unit, const Architecture &architecture,
               const std::vector<std::string> &extra = {});

}  // namespace bonsai::cuda
