#include "host/server/work_queue.h"

#include <string>
#include <system_error>
#include <utility>

namespace bonsai::server {

WorkQueue::WorkQueue(const char *purpose, size_t n_threads, size_t most_waiting) : most_waiting_(most_waiting) {
  try {
    for (size_t i = 0; i < n_threads; ++i) threads_.emplace_back([this](const std::stop_token &stop) { serve(stop); });
  } catch (const std::system_error &error) {
    throw std::system_error(error.code(), std::string("a thread ") + purpose + " cannot be started");
  }
}

WorkQueue::~WorkQueue() {
  for (std::jthread &thread : threads_) thread.request_stop();
  threads_.clear();
}

bool WorkQueue::try_push(Work work) {
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= most_waiting_) return false;
  waiting_.push_back(std::move(work));
  wake_.notify_one();
  return true;
}

void WorkQueue::serve(const std::stop_token &stop) {
  for (;;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, stop, [this] { return !waiting_.empty(); });
      if (stop.stop_requested()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace bonsai::server
