// The texts of plugins/cuda/kernels, embedded at build time.
#pragma once

#include <span>
#include <string_view>

namespace bonsai::cuda {

struct KernelFile {
  std::string_view name;         // "matmul.cu", "simt.cuh": as #include names it; NUL-terminated
  std::string_view text;         // NUL-terminated
  std::string_view sha256 = {};  // of the text, as 64 digits, made with the build; empty: not known
};

// All .cu, .cuh and .h files, by name.
std::span<const KernelFile> kernel_files();

}  // namespace bonsai::cuda
