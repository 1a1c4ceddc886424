// What the fake NVRTC makes and the fake driver loads: texts that name a unit of kernels and the architecture that they
// are for, with a checksum.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::fake {

struct Image {
  std::string unit;                       // "matmul.cu BONSAI_FORMAT=Q4_0", as the emulator names it
  std::string architecture;               // "sm_80", "sm_90a", "compute_120"
  int compiler = 0;                       // 1000 major + 10 minor
  std::vector<std::string> kernels = {};  // that a PTX declares
};

std::string make_ptx(const Image &image);
std::string make_cubin(const Image &image);

enum class ImageKind { kPtx, kCubin, kNeither };
ImageKind kind_of(std::string_view text);

// Nothing where the text is not as it was made.
std::optional<Image> parse_image(std::string_view text);

// 90 of "sm_90a"; 0 if it is no architecture.
int capability_of(std::string_view architecture);

}  // namespace bonsai::fake
