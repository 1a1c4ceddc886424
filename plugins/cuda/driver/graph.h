// Work recorded once from a stream and then launched whole. Calls need the context to be current.
#pragma once

#include "plugins/cuda/driver/stream.h"

namespace bonsai::cuda {

class Graph {
 public:
  const Context &context() const { return graph_.context(); }
  CUgraph handle() const { return graph_.get(); }

 private:
  friend class Capture;
  Graph(const Context &context, CUgraph graph) : graph_(context, graph) {}
  Handle<CUgraph, &DriverFunctions::cuGraphDestroy> graph_;
};

// Records what is submitted to a stream while it lives, instead of running it. An exception that passes by before
// finish ends the recording and throws it away, so that the stream can be used again.
class Capture {
 public:
  explicit Capture(const Stream &stream);
  ~Capture();
  Capture(const Capture &) = delete;
  Capture &operator=(const Capture &) = delete;

  // Throws if something was submitted that cannot be recorded.
  Graph finish();

 private:
  const Stream &stream_;
  bool is_open_ = true;
};

// A graph that the device can run.
class GraphExec {
 public:
  explicit GraphExec(const Graph &graph);

  // Sends it to the device, so that the first launch does not.
  void upload(const Stream &stream) const;
  void launch(const Stream &stream) const;

 private:
  Handle<CUgraphExec, &DriverFunctions::cuGraphExecDestroy> exec_;
};

}  // namespace bonsai::cuda
