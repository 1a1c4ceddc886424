// What ptxas -v says about each kernel.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace bonsai::cuda {

struct KernelNeeds {
  int registers = 0;
  int spill_bytes = 0;  // stored and loaded, per thread
};

// By the kernels' names. Lines that are none of ptxas's are passed over.
std::map<std::string, KernelNeeds> read_ptxas_log(std::string_view log);

}  // namespace bonsai::cuda
