// How fast this machine streams memory: the limit that decoding is measured against.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/base/result.h"

namespace bonsai::bench {

struct StreamSpeed {
  double bytes_per_second = 0;
  uint64_t bytes = 0;  // that each pass read
  int threads = 0;
};

// Memory to be read from end to end, again and again.
class StreamMemory {
 public:
  // `bytes` are rounded up to whole pages for each thread. Precondition: both are at least 1. Error: the memory cannot
  // be had.
  static Result<StreamMemory> create(int threads, uint64_t bytes);
  StreamMemory(StreamMemory &&) noexcept;
  ~StreamMemory();

  // Reads all of it `passes` (at least 1) times, each thread its own piece, which it wrote the first time; the fastest
  // pass counts. The first time once more with memory asked for ahead, and once more in four places in turn: from then
  // on as was fastest. Error: the memory does not hold what was written.
  Result<StreamSpeed> read(int passes);

 private:
  class Pages;
  using Sum = uint64_t (*)(std::span<const uint64_t> words);
  StreamMemory(int threads, std::unique_ptr<Pages> pages);

  int threads_;
  std::unique_ptr<Pages> pages_;
  bool is_written_ = false;
  Sum way_ = nullptr;
};

// The same, once.
Result<StreamSpeed> measure_stream(int threads, uint64_t bytes, int passes = 5);

// The last-level caches of all processors together, each counted once: those that list the same processors are one. 0
// where the system does not say.
uint64_t last_level_cache_bytes();

// Memory that no cache can help with: 1 GiB, or four times all last-level caches together if that is more.
uint64_t stream_bytes();

}  // namespace bonsai::bench
