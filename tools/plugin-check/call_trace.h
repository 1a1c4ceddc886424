// Which function of a plugin is under way, noted where another process can read it when this one has crashed, and in
// which floating-point environment it is called.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "host/backend/registry.h"

namespace bonsai::check {

// Lies in memory that two processes share. With calls on two threads, `function` is the one that began last.
struct CallTrace {
  static constexpr size_t kMostAbout = 200;

  std::atomic<const char *> function = nullptr;  // of the plugin's table, called last; nullptr before the first call
  std::atomic<uint32_t> n_under_way = 0;         // calls that have not returned
  char about[kMostAbout] = {};                   // what is wrong with the call that is made, on purpose; empty: nothing
};

// From now on this process notes in `trace` what its checks call, and not in memory of its own. For a process that
// checks one plugin.
void trace_calls(CallTrace &trace);

// Notes what a bad call is about while it lives. Of one thread at a time.
class About {
 public:
  explicit About(std::string_view what);
  ~About();
  About(const About &) = delete;
  About &operator=(const About &) = delete;
};

// A copy of the backend whose table `change` may change.
template <class Change>
std::shared_ptr<const host::Backend> with_table(const host::Backend &backend, const Change &change) {
  auto copy = std::make_shared<host::Backend>(backend);
  // The host lets nobody change a backend's table; this copy of it is ours, and not const.
  change(const_cast<bonsai_backend_api &>(copy->api()));
  return copy;
}

// The backend with a table that notes each call and watches its environment. The backends in use at one time are the
// same.
std::shared_ptr<const host::Backend> traced(std::shared_ptr<const host::Backend> backend);

// Its name; empty before that.
std::string_view traced_name();

}  // namespace bonsai::check
