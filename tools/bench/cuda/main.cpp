// bonsai-bench-cuda: the CUDA backend's kernels by themselves, held against how fast the device copies its own memory.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/standard_streams.h"
#include "tools/bench/cuda/copy.h"
#include "tools/bench/cuda/products.h"

namespace bonsai::bench::cuda {
namespace {

using namespace bonsai::cuda;
namespace po = boost::program_options;

struct Request {
  std::vector<std::string> formats;
  std::vector<uint32_t> n;
  std::string shape;  // part of a shape's name; empty: all
  std::optional<MatmulKernel> kernel;
  uint64_t copy_bytes;
};

MatmulKernel kernel_named(std::string_view name) {
  std::string names;
  for (const MatmulKernel kernel : kMatmulKernels) {
    if (name_of(kernel) == name) return kernel;
    names += (names.empty() ? "" : ", ") + std::string(name_of(kernel));
  }
  throw std::invalid_argument(fmt::format("there is no kernel '{}', expected one of {}", name, names));
}

std::optional<Request> read_request(int argc, char **argv) {
  Request request;
  po::options_description options("bonsai-bench-cuda [OPTIONS]\nTimes products on the first device, and its copies");
  options.add_options()("help", "this text")(
      "format,f",
      po::value(&request.formats)->multitoken()->default_value({"Q1_0_G128", "TQ2_0_G128"}, "Q1_0_G128 TQ2_0_G128"),
      "weight formats")("n,n", po::value(&request.n)->multitoken()->default_value({1, 8, 32, 512}, "1 8 32 512"),
                        "numbers of vectors")("shape,s", po::value(&request.shape)->default_value(""),
                                              "only shapes with this in their names: 8b, head, '1.7b o'")(
      "kernel,k", po::value<std::string>(),
      "the kernel, such as matmul_prefill; by default the one that the backend takes")(
      "copy-bytes", po::value(&request.copy_bytes)->default_value(uint64_t{2} << 30), "of the copy that is the limit");
  po::variables_map values;
  po::store(po::parse_command_line(argc, argv, options), values);
  if (values.count("help")) {
    std::ostringstream text;
    text << options;
    fmt::print("{}", text.str());
    return std::nullopt;
  }
  po::notify(values);
  if (values.count("kernel")) request.kernel = kernel_named(values["kernel"].as<std::string>());
  return request;
}

void run_case(Device &device, const ProductCase &which, double copy) {
  const ProductTime time = time_product(device, which);
  const double rate = static_cast<double>(time.matrix_bytes) / time.seconds;
  const double operations = 2.0 * static_cast<double>(which.shape.rows * which.shape.columns) * which.n / time.seconds;
  fmt::print("{:<14} {:<12} n {:>4}  {:<15} {:>9.2f} us  {:>8.1f} GB/s {:>5.1f} %  {:>8.1f} Tops/s\n", which.shape.name,
             quant::traits(which.format).name, which.n, time.kernel, time.seconds * 1e6, rate / 1e9,
             copy > 0 ? 100 * rate / copy : 0, operations / 1e12);
  std::fflush(stdout);
}

int run(const Request &request) {
  if (platform().devices.empty()) {
    print_to_stderr("bonsai-bench-cuda: {}\n", platform().reason);
    return 1;
  }
  Device device(platform().devices[0], {}, {});
  const CurrentContext current(device.context());
  const double copy = measure_copy(device, request.copy_bytes, 10);
  fmt::print("{}: copies {:.1f} GB/s, read and written\n", device.description().name, copy / 1e9);
  for (const std::string &name : request.formats) {
    const quant::FormatTraits *format = quant::find_format(name);
    if (!format) {
      print_to_stderr("bonsai-bench-cuda: there is no format '{}'\n", name);
      return 2;
    }
    if (request.kernel && !serves(*request.kernel, format->format, device.matmul_device())) {
      print_to_stderr("bonsai-bench-cuda: {} does not serve {} on this device\n", name_of(*request.kernel), name);
      return 2;
    }
    for (const MatrixShape &shape : matrix_shapes()) {
      if (shape.name.find(request.shape) == std::string::npos) continue;
      for (const uint32_t n : request.n) run_case(device, {format->format, shape, n, request.kernel}, copy);
    }
  }
  return 0;
}

}  // namespace
}  // namespace bonsai::bench::cuda

int main(int argc, char **argv) {
  try {
    const auto request = bonsai::bench::cuda::read_request(argc, argv);
    return request ? bonsai::bench::cuda::run(*request) : 0;
  } catch (const std::exception &exception) {
    bonsai::print_to_stderr("bonsai-bench-cuda: {}\n", exception.what());
    return 1;
  }
}
