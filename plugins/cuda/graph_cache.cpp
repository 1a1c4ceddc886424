#include "plugins/cuda/graph_cache.h"

#include <algorithm>

#include "plugins/common/failure.h"

namespace bonsai::cuda {

void GraphCache::run(const GraphKey &key, const std::function<void()> &pass) {
  if (!is_on_) return pass();
  Entry &entry = find(key);
  if (entry.passes++ == 0) return pass();
  if (!entry.graph) entry.graph = record(pass);
  if (!entry.graph) return pass();
  entry.graph->launch(stream_);
}

// The key's entry, made if it is not there, and now the first.
GraphCache::Entry &GraphCache::find(const GraphKey &key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry &entry) { return entry.key == key; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front();
  }
  if (entries_.size() == kMost) {
    stream_.synchronize();  // the one that goes may still be running
    entries_.pop_back();
  }
  return entries_.emplace_front(Entry{key, 0, std::nullopt});
}

// Nothing if the pass cannot be recorded.
std::optional<GraphExec> GraphCache::record(const std::function<void()> &pass) {
  try {
    Capture capture(stream_);
    pass();
    const Graph graph = capture.finish();
    return GraphExec(graph);
  } catch (const plugin::Failure &failure) {
    if (failure.status() == BONSAI_DEVICE_LOST) throw;
    is_on_ = false;
    if (log_) {
      log_(BONSAI_LOG_WARNING,
           fmt::format("cuda: decode steps run without graphs: one could not be recorded: {}", failure.what()));
    }
    return std::nullopt;
  }
}

}  // namespace bonsai::cuda
