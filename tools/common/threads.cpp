#include "tools/common/threads.h"

#include <boost/program_options/value_semantic.hpp>

namespace bonsai::tools {
namespace {

namespace po = boost::program_options;

constexpr int kMostThreads = 1024;

}  // namespace

void add_threads_option(po::options_description &options) {
  options.add_options()("threads,t", po::value<int>(),
                        "threads (default: one for each core); the output does not depend on them");
}

Result<std::optional<int>> read_threads(const po::variables_map &given) {
  if (!given.count("threads")) return std::nullopt;
  const int threads = given["threads"].as<int>();
  if (threads < 1 || threads > kMostThreads) {
    return fail("--threads: expected 1 to {}, found {}", kMostThreads, threads);
  }
  return threads;
}

}  // namespace bonsai::tools
