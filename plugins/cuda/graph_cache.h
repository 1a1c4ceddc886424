// Passes recorded once and launched whole: for small batches of the same shape, a launch for each kernel costs more
// than the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "plugins/cuda/compile/log.h"
#include "plugins/cuda/driver/graph.h"

namespace bonsai::cuda {

// All that the arguments of a pass's launches follow from, beside what a session never changes.
using GraphKey = std::vector<uint32_t>;

class GraphCache {
 public:
  // Passes that are kept; those that ran longest ago go first.
  static constexpr size_t kMost = 32;

  GraphCache(const Stream &stream, bool is_on, Log log) : stream_(stream), log_(std::move(log)), is_on_(is_on) {}

  // Runs `pass`, which submits to the stream, or the recording of an earlier one with the same key. A key's first pass
  // is submitted as it is: most shapes of prompts come once, and a pass that is recorded has all its kernels ready. A
  // pass that cannot be recorded is submitted, and nothing is recorded from then on. The context is current.
  void run(const GraphKey &key, const std::function<void()> &pass);

 private:
  struct Entry {
    GraphKey key;
    uint64_t passes;
    std::optional<GraphExec> graph;
  };
  Entry &find(const GraphKey &key);
  std::optional<GraphExec> record(const std::function<void()> &pass);

  const Stream &stream_;
  Log log_;
  bool is_on_;
  std::list<Entry> entries_;  // the one that ran last comes first
};

}  // namespace bonsai::cuda
