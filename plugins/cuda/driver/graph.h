// Work recorded once from a stream and then launched whole. Calls need the context to be current.
#pragma once

#include "plugins/cuda/driver/stream.h"

namespace bonsai::cuda {

class Graph {
 public:
  ~Graph();
  Graph(Graph &&other) noexcept;
  Graph &operator=(Graph &&other) noexcept;

  const Context &context() const { return *context_; }
  CUgraph handle() const { return handle_; }

 private:
  friend class Capture;
  Graph(const Context &context, CUgraph handle) : context_(&context), handle_(handle) {}
  const Context *context_;
  CUgraph handle_;
};

// Records what is submitted to a stream while it lives, instead of running it. Until finish, an exception that passes
// by ends the recording and throws it away, so that the stream can be used again.
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
  ~GraphExec();
  GraphExec(GraphExec &&other) noexcept;
  GraphExec &operator=(GraphExec &&other) noexcept;

  // Takes over the parameters of a graph of the same shape; false if the shapes differ (the old one stays).
  bool update(const Graph &graph) const;
  // Sends it to the device, so that the first launch does not.
  void upload(const Stream &stream) const;
  void launch(const Stream &stream) const;

 private:
  const Context *context_;
  CUgraphExec handle_ = nullptr;
};

}  // namespace bonsai::cuda
