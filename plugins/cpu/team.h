// Threads that stand by for the parts of short jobs: they watch memory, so that a part begins a fraction of a
// microsecond after the job is there. A task takes two, and a decode step has more than a hundred.
#pragma once

#include <atomic>
#include <cstddef>

namespace bonsai::cpu {

// One thread, the leader, gives out one job after the other; any number of others stand by.
class Team {
 public:
  // `parts` of every job, at least 1.
  explicit Team(int parts) : parts_(parts), next_(parts) {}

  // The leader: calls body(part) for every part in [0, parts), each once and on some thread, and returns when all have
  // returned. Parts that nobody takes are its own. The body must not throw.
  template <class Body>
  void run(const Body &body) {
    body_ = &body;
    call_ = [](const void *erased, int part) { (*static_cast<const Body *>(erased))(part); };
    unfinished_.store(parts_, std::memory_order_relaxed);
    next_.store(0, std::memory_order_release);
    while (take_part()) {
    }
    for (Patience patience; unfinished_.load(std::memory_order_acquire) > 0;) patience.wait();
  }

  // Another thread: takes parts until the leader has dismissed the team.
  void stand_by() {
    for (Patience patience; !dismissed_.load(std::memory_order_acquire);) {
      if (take_part()) {
        patience = {};
      } else {
        patience.wait();
      }
    }
  }

  void dismiss() { dismissed_.store(true, std::memory_order_release); }

 private:
  // Watches for some microseconds, then lets others have the processor between two looks.
  class Patience {
   public:
    void wait();

   private:
    int looks_ = 0;
  };

  bool take_part() {
    // A look first: to count on would take the line from those who work.
    if (next_.load(std::memory_order_relaxed) >= parts_) return false;
    const int part = next_.fetch_add(1, std::memory_order_acq_rel);
    if (part >= parts_) return false;
    call_(body_, part);
    unfinished_.fetch_sub(1, std::memory_order_release);
    return true;
  }

  static constexpr size_t kLine = 64;
  const int parts_;
  const void *body_ = nullptr;                     // written before next_ lets anyone take a part of it
  void (*call_)(const void *, int) = nullptr;      // likewise
  alignas(kLine) std::atomic<int> next_;           // the part that is taken next
  alignas(kLine) std::atomic<int> unfinished_{0};  // parts of the job at hand
  alignas(kLine) std::atomic<bool> dismissed_{false};
};

}  // namespace bonsai::cpu
