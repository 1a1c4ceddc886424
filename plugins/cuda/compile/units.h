// What is compiled: every unit of device code, once for each of its settings. Kernels are added to the table in
// units.cpp; the tests compile all of it for every architecture.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::cuda {

// A kernel in which time is spent: it must not take more registers than this on any architecture, nor spill more than
// it is known to, bytes stored and loaded together, of a thread.
struct HotKernel {
  std::string name;
  int max_registers;
  int max_spill_bytes = 0;
};

struct Unit {
  std::string name;                  // "matmul.Q4_0": unique, for messages and to ask for it
  std::string file;                  // "matmul.cu"
  std::vector<std::string> defines;  // "BONSAI_FORMAT=Q4_0"
  std::vector<HotKernel> hot;
};

std::span<const Unit> units();

// Throws INTERNAL if there is none of that name.
const Unit &find_unit(std::span<const Unit> among, std::string_view name);

}  // namespace bonsai::cuda
