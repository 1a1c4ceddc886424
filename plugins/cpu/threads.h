// The threads of one device: oneTBB's, and how work is divided among them.
#pragma once

#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <string>
#include <vector>

#include "core/base/floating_point_environment.h"
#include "plugins/cpu/shared_ranges.h"
#include "plugins/cpu/team.h"

namespace bonsai::cpu {

// Rows of `width` elements that are worth handing to another thread in element-wise steps.
constexpr size_t rows_worth_a_thread(size_t width) {
  constexpr size_t kElements = 2048;
  return std::max<size_t>(1, kElements / width);
}

class Threads {
 public:
  // `count` may exceed the cores; the calling thread is one of them. The others are there when it returns: they are
  // asked for now, not in the middle of something. count() may be less, as many as oneTBB gives: behind a fork it may
  // have none of its threads, and an application may limit it (tbb::global_control). Those that are busy for somebody
  // else are counted.
  explicit Threads(int count);

  int count() const { return count_; }
  int wanted() const { return wanted_; }  // what it was made for

  // Calls body(worker) for every worker in [0, count), each once, and returns when all have returned. Which thread runs
  // which worker is open; scratch that belongs to a worker is not shared. The body must not throw.
  template <class Body>
  void each_worker(const Body &body) {
    if (count_ == 1) return body(0);
    if (team_) return team_->run(body);
    arena_.execute([&] {
      tbb::parallel_for(
          tbb::blocked_range<int>(0, count_, 1),
          [&](const tbb::blocked_range<int> &workers) {
            const DefaultFloatingPoint environment;
            for (int worker = workers.begin(); worker != workers.end(); ++worker) body(worker);
          },
          tbb::static_partitioner{});
    });
  }

  // Runs `steps` on the calling thread; meanwhile the others stand by for its calls of each_worker and the like.
  template <class Steps>
  void together(const Steps &steps) {
    if (count_ == 1 || team_) return steps();
    Team team(count_);
    arena_.execute([&] {
      tbb::task_group others;
      const Gathered gathered(*this, team, others);
      gather(team, others);
      steps();
    });
  }

  // Where worker's range begins when each_range divides n among all.
  size_t first_of(size_t n, size_t grain, int worker) const {
    const size_t grains = (n + grain - 1) / grain;
    return std::min(n, grains * static_cast<size_t>(worker) / static_cast<size_t>(count_) * grain);
  }

  // Calls body(begin, end, worker) on ranges that cover [0, n) in order, one for each worker and all multiples of
  // `grain` long but for the last. Without a second grain of work the caller computes alone: handing over costs more.
  template <class Body>
  void each_range(size_t n, size_t grain, const Body &body) {
    const size_t grains = (n + grain - 1) / grain;
    if (grains <= 1 || count_ == 1) {
      if (n > 0) body(size_t{0}, n, 0);
      return;
    }
    each_worker([&](int worker) {
      const size_t begin = first_of(n, grain, worker), end = first_of(n, grain, worker + 1);
      if (begin < end) body(begin, end, worker);
    });
  }

  // Begins with the same ranges, empty ones included: body(turns, worker) calls turns.take() until there is nothing
  // (shared_ranges.h). Only one at a time. Precondition: n is at most SharedRanges::kMostUnits.
  template <class Body>
  void each_turns(size_t n, size_t grain, size_t least, const Body &body) {
    const auto run = [&](int worker, UnitRange own) {
      SharedRanges::Turns turns = shared_.begin(worker, own, least);
      body(turns, worker);
    };
    if (n <= grain) return run(0, {0, n});
    each_worker([&](int worker) { run(worker, {first_of(n, grain, worker), first_of(n, grain, worker + 1)}); });
  }

 private:
  // Sends the others to the team. Without memory for all of them fewer come, whose parts are the leader's.
  void gather(Team &team, tbb::task_group &others) const {
    try {
      for (int i = 1; i < count_; ++i) {
        others.run([&team] {
          const DefaultFloatingPoint environment;
          team.stand_by();
        });
      }
    } catch (const std::bad_alloc &) {
    }
  }

  // Ends what together() began, also where a step throws.
  class Gathered {
   public:
    Gathered(Threads &threads, Team &team, tbb::task_group &others) : threads_(threads), others_(others) {
      threads_.team_ = &team;
    }
    Gathered(const Gathered &) = delete;
    Gathered &operator=(const Gathered &) = delete;
    ~Gathered() {
      threads_.team_->dismiss();
      threads_.team_ = nullptr;
      others_.wait();
    }

   private:
    Threads &threads_;
    tbb::task_group &others_;
  };

  int wanted_, count_;
  Team *team_ = nullptr;  // while together() runs
  SharedRanges shared_;   // of the each_turns() at hand
  tbb::task_arena arena_;
};

}  // namespace bonsai::cpu
