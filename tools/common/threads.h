// The option --threads of the tools that work on all cores.
#pragma once

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <cstddef>
#include <optional>

#include "core/base/result.h"

namespace bonsai::tools {

void add_threads_option(boost::program_options::options_description &options);

// nullopt where it was not given.
Result<std::optional<int>> read_threads(const boost::program_options::variables_map &given);

// What work() returns, with so many threads for oneTBB (nullopt: one for each core). More than there are cores are
// allowed, as everywhere.
template <class Work>
auto on_threads(std::optional<int> threads, Work work) {
  if (!threads) return work();
  tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(*threads));
  tbb::task_arena arena(*threads);
  return arena.execute(work);
}

}  // namespace bonsai::tools
