#include "plugins/cuda/driver/graph.h"

namespace bonsai::cuda {

// Of this thread alone: another thread's calls, on another device for one, do not spoil the recording.
Capture::Capture(const Stream &stream) : stream_(stream) {
  const Driver &driver = stream.context().driver();
  driver.check(driver.cuStreamBeginCapture_v2(stream.handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
               "cuStreamBeginCapture_v2");
}

Capture::~Capture() {
  if (!is_open_) return;
  const Driver &driver = stream_.context().driver();
  CUgraph unfinished = nullptr;
  driver.cuStreamEndCapture(stream_.handle(), &unfinished);
  if (unfinished) driver.cuGraphDestroy(unfinished);
}

Graph Capture::finish() {
  is_open_ = false;
  const Driver &driver = stream_.context().driver();
  CUgraph graph = nullptr;
  driver.check(driver.cuStreamEndCapture(stream_.handle(), &graph), "cuStreamEndCapture");
  return Graph(stream_.context(), graph);
}

GraphExec::GraphExec(const Graph &graph) : exec_(graph.context()) {
  const Driver &driver = exec_.driver();
  driver.check(driver.cuGraphInstantiateWithFlags(exec_.out(), graph.handle(), 0), "cuGraphInstantiateWithFlags");
}

void GraphExec::upload(const Stream &stream) const {
  exec_.driver().check(exec_.driver().cuGraphUpload(exec_.get(), stream.handle()), "cuGraphUpload");
}

void GraphExec::launch(const Stream &stream) const {
  exec_.driver().check(exec_.driver().cuGraphLaunch(exec_.get(), stream.handle()), "cuGraphLaunch");
}

}  // namespace bonsai::cuda
