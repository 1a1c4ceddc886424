#include "plugins/cuda/graph_cache.h"

#include <algorithm>
#include <utility>

namespace bonsai::cuda {

void GraphCache::run(const GraphKey &key, const std::function<void()> &pass, const Simplify &simplify) {
  const GraphExec *graph = find(key);
  if (graph && launch_again(*graph)) return;
  if (!is_on_) return pass();
  if (!take_seen(key)) {
    note_seen(key);
    return pass();
  }
  if (!launch_recording(key, pass, simplify)) pass();
}

// The key's recording, which is now the first; null if there is none.
const GraphExec *GraphCache::find(const GraphKey &key) {
  const auto found = std::ranges::find(recordings_, key, &Recording::key);
  if (found == recordings_.end()) return nullptr;
  recordings_.splice(recordings_.begin(), recordings_, found);
  return &found->graph;
}

// False if there is no memory for that: it has not run then, and is no more.
bool GraphCache::launch_again(const GraphExec &graph) {
  try {
    graph.launch(stream_);
    return true;
  } catch (const plugin::Failure &failure) {
    if (failure.status() != BONSAI_OUT_OF_MEMORY) throw;
    stop(failure);
    return false;
  }
}

// Whether the key has come before; it is forgotten, since it is recorded now.
bool GraphCache::take_seen(const GraphKey &key) { return std::erase(seen_, key) > 0; }

void GraphCache::note_seen(const GraphKey &key) {
  if (seen_.size() == kMostSeen) seen_.pop_back();
  seen_.push_front(key);
}

void GraphCache::make_room() {
  if (recordings_.size() == kMostGraphs) drop_oldest();
}

// Gives back the memory of the recording that ran longest ago; false if there is none.
bool GraphCache::drop_oldest() {
  if (recordings_.empty()) return false;
  stream_.synchronize();  // it may still be running
  recordings_.pop_back();
  return true;
}

GraphExec GraphCache::record(const std::function<void()> &pass) const {
  Capture capture(stream_);
  pass();
  const Graph graph = capture.finish();
  return GraphExec(graph);
}

// A driver may have no memory for a recording, or nothing that it likes, only when it goes to the device or runs there.
// So it is kept behind its first launch.
void GraphCache::record_and_launch(const GraphKey &key, const std::function<void()> &pass) {
  std::list<Recording> recording;
  recording.push_front({key, record(pass)});
  const GraphExec &graph = recording.front().graph;
  graph.upload(stream_);
  make_room();
  graph.launch(stream_);
  recordings_.splice(recordings_.begin(), recording);
}

// Nothing is recorded from now on. What is recorded goes on being launched, unless its memory is what is wanted.
void GraphCache::stop(const plugin::Failure &failure) {
  is_on_ = false;
  if (failure.status() == BONSAI_OUT_OF_MEMORY && !recordings_.empty()) {
    stream_.synchronize();
    recordings_.clear();
  }
  if (!log_) return;
  const char *which = recordings_.empty() ? "" : " that are not recorded yet";
  log_(BONSAI_LOG_WARNING,
       fmt::format(
           "cuda: this session's decode steps{} run without graphs from now on: one could not be made or run: {}",
           which, failure.what()));
}

// False if the pass cannot be recorded: it has not run then.
bool GraphCache::launch_recording(const GraphKey &key, const std::function<void()> &pass, const Simplify &simplify) {
  bool has_given_back = false;
  for (;;) {
    try {
      record_and_launch(key, pass);
      return true;
    } catch (const plugin::Failure &failure) {
      if (failure.status() == BONSAI_DEVICE_LOST) throw;
      // Memory that is not to be had is no fault of the launches.
      const bool lacks_memory = failure.status() == BONSAI_OUT_OF_MEMORY;
      if (lacks_memory && !std::exchange(has_given_back, true) && drop_oldest()) continue;
      if (!lacks_memory && simplify && simplify(failure.what())) continue;
      stop(failure);
      return false;
    }
  }
}

}  // namespace bonsai::cuda
