#include "plugins/cuda/graph_cache.h"

#include <algorithm>
#include <utility>

namespace bonsai::cuda {

void GraphCache::run(const GraphKey &key, const std::function<void()> &pass) {
  if (!is_on_) return pass();
  if (const GraphExec *graph = find(key)) return graph->launch(stream_);
  if (!take_seen(key)) {
    note_seen(key);
    return pass();
  }
  std::optional<GraphExec> graph = record(pass);
  if (!graph) return pass();
  keep(key, *std::move(graph)).launch(stream_);
}

// The key's recording, which is now the first; null if there is none.
const GraphExec *GraphCache::find(const GraphKey &key) {
  const auto found = std::ranges::find(recordings_, key, &Recording::key);
  if (found == recordings_.end()) return nullptr;
  recordings_.splice(recordings_.begin(), recordings_, found);
  return &found->graph;
}

// Whether the key has come before; it is forgotten, since it is recorded now.
bool GraphCache::take_seen(const GraphKey &key) { return std::erase(seen_, key) > 0; }

void GraphCache::note_seen(const GraphKey &key) {
  if (seen_.size() == kMostSeen) seen_.pop_back();
  seen_.push_front(key);
}

const GraphExec &GraphCache::keep(const GraphKey &key, GraphExec graph) {
  if (recordings_.size() == kMostGraphs) {
    stream_.synchronize();  // the one that goes may still be running
    recordings_.pop_back();
  }
  return recordings_.emplace_front(Recording{key, std::move(graph)}).graph;
}

GraphExec GraphCache::record_once(const std::function<void()> &pass) const {
  Capture capture(stream_);
  pass();
  const Graph graph = capture.finish();
  return GraphExec(graph);
}

// Memory that is not to be had is no fault of the launches.
bool GraphCache::is_plainer_after(const plugin::Failure &failure) {
  return failure.status() != BONSAI_OUT_OF_MEMORY && simplify_ && simplify_(failure.what());
}

// Nothing if the pass cannot be recorded.
std::optional<GraphExec> GraphCache::record(const std::function<void()> &pass) {
  for (;;) {
    try {
      return record_once(pass);
    } catch (const plugin::Failure &failure) {
      if (failure.status() == BONSAI_DEVICE_LOST) throw;
      if (is_plainer_after(failure)) continue;
      is_on_ = false;
      if (log_) {
        log_(BONSAI_LOG_WARNING,
             fmt::format(
                 "cuda: this session's decode steps run without graphs from now on: one could not be recorded: {}",
                 failure.what()));
      }
      return std::nullopt;
    }
  }
}

}  // namespace bonsai::cuda
