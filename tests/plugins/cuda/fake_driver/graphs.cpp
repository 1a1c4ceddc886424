// Recordings of streams, and graphs made of them.
#include "tests/plugins/cuda/fake_driver/work.h"

using namespace bonsai::fake;

namespace {

// A call that was made to fail ends a recording all the same, but gives no graph.
void drop(CUgraph &graph) {
  const std::lock_guard lock(world().mutex);
  if (graph) world().graphs.remove(*reinterpret_cast<Graph *>(graph));
  graph = nullptr;
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Stream &stream = find_stream(world, handle);
    if (stream.capture) throw Misuse{CUDA_ERROR_ILLEGAL_STATE, "the stream is being captured already"};
    stream.capture = std::make_shared<Capture>(Capture{.thread = std::this_thread::get_id(), .mode = mode});
    world.captures.insert(stream.capture.get());
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  *graph = nullptr;
  const CUresult result = call(__func__, kNeedsContext | kReleases, [&](World &world) {
    Stream &stream = find_stream(world, handle);
    const std::shared_ptr<Capture> capture = stream.capture;
    if (!capture) throw Misuse{CUDA_ERROR_ILLEGAL_STATE, "no capture was begun on the stream"};
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
      throw Misuse{CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun by another thread"};
    }
    world.captures.erase(capture.get());
    stream.capture = nullptr;
    if (world.broken != CUDA_SUCCESS) throw Refusal{world.broken};
    if (capture->is_invalid) throw Refusal{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
    *graph = reinterpret_cast<CUgraph>(world.graphs.add({stream.context, std::move(capture->work)}));
  });
  if (result != CUDA_SUCCESS) drop(*graph);
  return result;
}

CUresult cuGraphDestroy(CUgraph handle) {
  return call(__func__, kNeedsContext | kReleases,
              [&](World &world) { world.graphs.remove(find(world.graphs, handle, "graph")); });
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph handle, unsigned long long) {
  return call(__func__, kNeedsContext, [&](World &world) {
    const Graph &graph = find(world.graphs, handle, "graph");
    *exec = reinterpret_cast<CUgraphExec>(world.graph_execs.add({graph.context, graph.work}));
  });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream handle) {
  return call(__func__, kNeedsContext | kNotWhileCapturing, [&](World &world) {
    find(world.graph_execs, exec, "graph exec");
    find_stream(world, handle);
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return call(__func__, kNeedsContext, [&](World &world) {
    const GraphExec &exec = find(world.graph_execs, handle, "graph exec");
    Stream &stream = find_stream(world, stream_handle);
    for (const Work &work : exec.work) submit(world, stream, work);
  });
}

// Work that is under way keeps its own copy, as a driver does.
CUresult cuGraphExecDestroy(CUgraphExec handle) {
  return call(__func__, kNeedsContext | kReleases,
              [&](World &world) { world.graph_execs.remove(find(world.graph_execs, handle, "graph exec")); });
}

}  // extern "C"
