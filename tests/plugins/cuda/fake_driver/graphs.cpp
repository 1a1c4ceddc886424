// Recordings of streams, and graphs made of them.
#include "tests/plugins/cuda/fake_driver/work.h"

using namespace bonsai::fake;

namespace {

// Ends the recording for all streams in it.
void end(World &world, Capture &capture) {
  world.captures.erase(&capture);
  for (Stream *stream : capture.streams) {
    if (stream != capture.origin) stream->capture = nullptr;
  }
}

// A call that was made to fail ends a recording all the same, but gives no graph.
void drop(CUgraph &graph) {
  const std::lock_guard lock(world().mutex);
  if (graph) world().graphs.remove(*reinterpret_cast<Graph *>(graph));
  graph = nullptr;
}

// Streams other than the first whose last work nothing in the recording waits for.
bool has_loose_ends(const Capture &capture) {
  for (const Stream *stream : capture.streams) {
    if (stream != capture.origin && stream->joined < stream->captured) return true;
  }
  return false;
}

// Whether an instantiated graph may take over another's parameters: the same work in the same order.
bool has_same_shape(const std::vector<Work> &a, const std::vector<Work> &b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].kind != b[i].kind) return false;
    const bool is_kernel = a[i].kind == Work::Kind::kKernel;
    if (is_kernel && a[i].function->context != b[i].function->context) return false;
  }
  return true;
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Stream &stream = find_stream(world, handle);
    if (stream.capture) throw Misuse{CUDA_ERROR_ILLEGAL_STATE, "the stream is being captured already"};
    stream.capture =
        std::make_shared<Capture>(Capture{.origin = &stream, .thread = std::this_thread::get_id(), .mode = mode});
    stream.capture->streams.insert(&stream);
    stream.captured = stream.joined = 0;
    world.captures.insert(stream.capture.get());
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  *graph = nullptr;
  const CUresult result = call(__func__, kNeedsContext | kReleases, [&](World &world) {
    Stream &stream = find_stream(world, handle);
    const std::shared_ptr<Capture> capture = stream.capture;
    if (!capture || capture->origin != &stream) {
      throw Misuse{CUDA_ERROR_ILLEGAL_STATE, "no capture was begun on the stream"};
    }
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id()) {
      throw Misuse{CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture was begun by another thread"};
    }
    end(world, *capture);
    stream.capture = nullptr;
    if (world.broken != CUDA_SUCCESS) throw Refusal{world.broken};
    if (capture->is_invalid) throw Refusal{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED};
    if (has_loose_ends(*capture)) {
      throw Misuse{CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream in the capture was not joined to the first"};
    }
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

CUresult cuGraphExecUpdate_v2(CUgraphExec exec_handle, CUgraph graph_handle, CUgraphExecUpdateResultInfo *info) {
  return call(__func__, kNeedsContext, [&](World &world) {
    GraphExec &exec = find(world.graph_execs, exec_handle, "graph exec");
    const Graph &graph = find(world.graphs, graph_handle, "graph");
    const bool is_same = has_same_shape(exec.work, graph.work);
    info->result = is_same ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (!is_same) throw Refusal{CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE};
    exec.work = graph.work;
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
