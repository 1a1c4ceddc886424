// What attention rests on and only a device can show: on its tensor cores a product with zero leaves a sum as it is,
// and rows and columns know nothing of each other. Over the fake driver, the emulator has both by construction.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <sstream>

#include "core/quant/format.h"
#include "plugins/cuda/compile/library.h"
#include "plugins/cuda/driver/memory.h"
#include "plugins/cuda/driver/platform.h"
#include "tests/plugins/cuda/emulator/example_arguments.h"

namespace bonsai::cuda {
namespace {

constexpr size_t kRows = 16, kColumns = 8, kPlaces = 16;

// One warp's product: c += a b.
struct Problem {
  std::array<std::array<uint16_t, kPlaces>, kRows> a;     // halves, by rows
  std::array<std::array<uint16_t, kPlaces>, kColumns> b;  // halves, by columns
  std::array<std::array<float, kColumns>, kRows> c;
};
using Sums = std::array<std::array<uint32_t, kColumns>, kRows>;  // bits

// What stands beside a zero: the largest powers of two that activations may have, the smallest normal halves, subnormal
// ones, and zero itself.
constexpr std::array<float, 8> kBeside = {0.0f,      0x1p15f,  -0x1p15f,  0x1p-14f,
                                          -0x1p-14f, 0x1p-24f, -0x1p-20f, 0x1.ffcp-15f};

std::string read(const std::string &path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class TensorCores : public testing::Test {
 protected:
  // On the first device, by the emulator's own kernel for this instruction, compiled here.
  Sums multiply(const Problem &problem) {
    const auto send = [&](DeviceBuffer &to, const auto &from) { stream_.upload(to.data(), &from, sizeof from); };
    Sums sums;
    send(a_, problem.a);
    send(b_, problem.b);
    send(c_, problem.c);
    const MatrixArguments arguments = {.a = a_.data(), .b = b_.data(), .c = c_.data()};
    launch(stream_, library_.function("example", "multiply_f16_k16"), {.threads = 32}, arguments);
    stream_.download(&sums, c_.data(), sizeof sums);
    stream_.synchronize();
    return sums;
  }

  // Small numbers, and sums of every size from 2^-30 to 2^20.
  Problem random_problem() {
    std::uniform_real_distribution<float> small(-2, 2);
    Problem problem;
    for (auto &row : problem.a) {
      for (uint16_t &half : row) half = quant::float_to_half(small(random_));
    }
    for (auto &column : problem.b) {
      for (uint16_t &half : column) half = quant::float_to_half(small(random_));
    }
    for (size_t row = 0; row < kRows; ++row) {
      for (float &sum : problem.c[row]) {
        sum = std::ldexp(small(random_), static_cast<int>(random_() % 51) - 30);
      }
    }
    return problem;
  }

  const DeviceDescription &device_ = platform().devices.at(0);
  Context context_{platform().driver, device_.handle};
  CurrentContext current_{context_};
  Stream stream_{context_};
  const std::string folder_ = BONSAI_SOURCE_DIR "/tests/plugins/cuda/emulator/";
  const std::string kernel_ = read(folder_ + "example.cu"), header_ = read(folder_ + "example_arguments.h");
  const std::vector<Unit> units_ = {{.name = "example", .file = "example.cu", .defines = {}, .hot = {}}};
  const std::vector<KernelFile> files_ = [this] {
    std::vector<KernelFile> files(kernel_files().begin(), kernel_files().end());
    files.push_back({"example.cu", kernel_});
    files.push_back({"example_arguments.h", header_});
    return files;
  }();
  KernelLibrary library_{context_,
                         {.capability = device_.capability,
                          .nvrtc = NvrtcSearch(nvrtc_candidates(platform().driver->version())).proved(),
                          .cache_directory = "",
                          .log = {},
                          .units = units_,
                          .files = files_}};
  DeviceBuffer a_{context_, sizeof Problem::a, "a"}, b_{context_, sizeof Problem::b, "b"},
      c_{context_, sizeof Problem::c, "c"};
  std::mt19937 random_{1};
};

// The columns of b differ where a is zero, and nowhere else.
TEST_F(TensorCores, AZeroOfALeavesSumsAsTheyAreWhateverItMeets) {
  for (int repetition = 0; repetition < 8; ++repetition) {
    for (size_t place = 0; place < kPlaces; ++place) {
      Problem problem = random_problem();
      for (auto &row : problem.a) row[place] = 0;
      for (auto &row : problem.c) row.fill(row[0]);
      for (size_t column = 0; column < kColumns; ++column) {
        problem.b[column] = problem.b[0];
        problem.b[column][place] = quant::float_to_half(kBeside[column]);
      }
      const Sums sums = multiply(problem);
      for (size_t row = 0; row < kRows; ++row) {
        for (size_t column = 1; column < kColumns; ++column) {
          EXPECT_EQ(sums[row][column], sums[row][0])
              << "place " << place << ", beside " << kBeside[column] << ", onto " << problem.c[row][0];
        }
      }
    }
  }
}

// The same of b: rows of a differ where it is zero.
TEST_F(TensorCores, AZeroOfBLeavesSumsAsTheyAreWhateverItMeets) {
  for (int repetition = 0; repetition < 8; ++repetition) {
    for (size_t place = 0; place < kPlaces; ++place) {
      Problem problem = random_problem();
      for (auto &column : problem.b) column[place] = 0;
      for (size_t row = 0; row < kRows; ++row) {
        problem.a[row] = problem.a[0];
        problem.a[row][place] = quant::float_to_half(kBeside[row % kBeside.size()]);
        problem.c[row] = problem.c[0];
      }
      const Sums sums = multiply(problem);
      for (size_t row = 1; row < kRows; ++row) {
        EXPECT_EQ(sums[row], sums[0]) << "place " << place << ", beside " << kBeside[row % kBeside.size()];
      }
    }
  }
}

// A whole row of zeros, as positions that a row does not see have for their weights.
TEST_F(TensorCores, ARowOfZerosLeavesItsSums) {
  for (int repetition = 0; repetition < 8; ++repetition) {
    Problem problem = random_problem();
    problem.a[3].fill(0);
    for (size_t column = 0; column < kColumns; ++column) {
      problem.b[column].fill(quant::float_to_half(kBeside[column]));
    }
    const Sums sums = multiply(problem);
    for (size_t column = 0; column < kColumns; ++column) {
      EXPECT_EQ(sums[3][column], std::bit_cast<uint32_t>(problem.c[3][column])) << kBeside[column];
    }
  }
}

TEST_F(TensorCores, RowsAndColumnsAreIndependentOfTheirPlaces) {
  std::array<size_t, kRows> rows;
  std::array<size_t, kColumns> columns;
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(columns.begin(), columns.end(), 0);
  for (int repetition = 0; repetition < 32; ++repetition) {
    const Problem problem = random_problem();
    std::ranges::shuffle(rows, random_);
    std::ranges::shuffle(columns, random_);
    Problem moved;
    for (size_t row = 0; row < kRows; ++row) {
      moved.a[row] = problem.a[rows[row]];
      for (size_t column = 0; column < kColumns; ++column) {
        moved.b[column] = problem.b[columns[column]];
        moved.c[row][column] = problem.c[rows[row]][columns[column]];
      }
    }
    const Sums sums = multiply(problem), moved_sums = multiply(moved);
    for (size_t row = 0; row < kRows; ++row) {
      for (size_t column = 0; column < kColumns; ++column) {
        EXPECT_EQ(moved_sums[row][column], sums[rows[row]][columns[column]]) << row << ", " << column;
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::cuda
