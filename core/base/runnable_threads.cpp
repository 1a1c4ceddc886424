#include "core/base/runnable_threads.h"

#include <cstddef>
#include <exception>
#include <latch>
#include <thread>
#include <vector>

namespace bonsai {

// By trying: what limits them (of the user, of the control group, of the machine's memory) is not to be had otherwise.
int runnable_threads(int count) {
  std::latch all_tried(1);
  std::vector<std::thread> tried;
  try {
    tried.reserve(static_cast<size_t>(count));
    for (int i = 1; i < count; ++i) tried.emplace_back([&] { all_tried.wait(); });
  } catch (const std::exception &) {
    // As many as there are: there is no thread, or no memory, for another.
  }
  all_tried.count_down();
  for (std::thread &thread : tried) thread.join();
  return 1 + static_cast<int>(tried.size());
}

}  // namespace bonsai
