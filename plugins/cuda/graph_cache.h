// Passes recorded once and launched whole: for small batches of the same shape, a launch for each kernel costs more
// than the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "plugins/common/failure.h"
#include "plugins/cuda/compile/log.h"
#include "plugins/cuda/driver/graph.h"

namespace bonsai::cuda {

// All that the arguments of a pass's launches follow from, beside what a session never changes.
using GraphKey = std::vector<uint32_t>;

class GraphCache {
 public:
  // Recordings that are kept, and keys that have come once; of each, those that came longest ago go first.
  static constexpr size_t kMostGraphs = 32;
  static constexpr size_t kMostSeen = 64;

  // Asked when a pass could not be recorded, and why: true if the same pass is submitted in a plainer way from now on,
  // and is to be recorded once more.
  using Simplify = std::function<bool(const std::string &why)>;

  GraphCache(const Stream &stream, bool is_on, Log log) : stream_(stream), log_(std::move(log)), is_on_(is_on) {}

  // Runs `pass`, which submits to the stream, or the recording of an earlier one with the same key. A key's first pass
  // is submitted as it is: most shapes of prompts come once, and a pass that is recorded has all its kernels ready. A
  // pass that cannot be recorded, or whose recording does not run, for want of memory for one, is submitted, and
  // nothing is recorded from then on; where memory is wanted, an older recording is given up for it first, and all of
  // them when that does not help, or when it is wanted for one that has run before; else it is recorded again for as
  // long as `simplify` makes it plainer. The context is current.
  void run(const GraphKey &key, const std::function<void()> &pass, const Simplify &simplify = {});

 private:
  struct Recording {
    GraphKey key;
    GraphExec graph;
  };
  const GraphExec *find(const GraphKey &key);
  bool launch_again(const GraphExec &graph);
  bool take_seen(const GraphKey &key);
  void note_seen(const GraphKey &key);
  void make_room();
  bool drop_oldest();
  GraphExec record(const std::function<void()> &pass) const;
  void record_and_launch(const GraphKey &key, const std::function<void()> &pass);
  bool launch_recording(const GraphKey &key, const std::function<void()> &pass, const Simplify &simplify);
  void stop(const plugin::Failure &failure);

  const Stream &stream_;
  Log log_;
  bool is_on_;
  // Apart, so that shapes that come once never cost a recording its place. In both, the one that came last is first.
  std::list<Recording> recordings_;
  std::list<GraphKey> seen_;
};

}  // namespace bonsai::cuda
