#include "tests/plugins/cuda/fake_driver/image.h"

#include <fmt/format.h>

#include <charconv>

namespace bonsai::fake {
namespace {

constexpr std::string_view kPtxStart = "// fake PTX\n.version ", kCubinStart =
                                                                     "\x7f"
                                                                     "ELF fake cubin\n.version ";

constexpr std::string_view kEntry = ".visible .entry ";

// FNV-1a.
uint64_t checksum(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

std::string make(std::string_view start, const Image &image, const std::vector<std::string> &kernels) {
  std::string text = fmt::format("{}{}\n.target {}\n.unit {}\n", start, image.compiler, image.architecture, image.unit);
  for (const std::string &kernel : kernels) text += fmt::format("{}{}(\n", kEntry, kernel);
  return fmt::format("{}.checksum {:016x}\n", text, checksum(text));
}

// What follows `name` on its line.
std::string value_of(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = text.substr(at + name.size());
  return std::string(rest.substr(0, rest.find('\n')));
}

std::vector<std::string> kernels_of(std::string_view text) {
  std::vector<std::string> kernels;
  for (size_t at = text.find(kEntry); at != std::string_view::npos; at = text.find(kEntry, at + 1)) {
    const std::string_view name = text.substr(at + kEntry.size());
    kernels.emplace_back(name.substr(0, name.find('(')));
  }
  return kernels;
}

int number_of(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string make_ptx(const Image &image) { return make(kPtxStart, image, image.kernels); }

std::string make_cubin(const Image &image) { return make(kCubinStart, image, {}); }

ImageKind kind_of(std::string_view text) {
  if (text.starts_with(kPtxStart)) return ImageKind::kPtx;
  return text.starts_with(kCubinStart) ? ImageKind::kCubin : ImageKind::kNeither;
}

std::optional<Image> parse_image(std::string_view text) {
  const Image image{.unit = value_of(text, "\n.unit "),
                    .architecture = value_of(text, "\n.target "),
                    .compiler = number_of(value_of(text, "\n.version ")),
                    .kernels = kernels_of(text)};
  const ImageKind kind = kind_of(text);
  if (kind == ImageKind::kNeither) return std::nullopt;
  if (text != (kind == ImageKind::kPtx ? make_ptx(image) : make_cubin(image))) return std::nullopt;
  return image;
}

int capability_of(std::string_view architecture) {
  const size_t underscore = architecture.find('_');
  return underscore == std::string_view::npos ? 0 : number_of(architecture.substr(underscore + 1));
}

}  // namespace bonsai::fake
