// What the fake driver's handles point to.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "tests/plugins/cuda/emulator/emulator.h"

namespace bonsai::fake {

struct Context {
  int device = 0;
  unsigned retained = 0;
};

struct Module {
  Context *context = nullptr;
  std::string unit;
};

struct Function {
  Context *context = nullptr;
  Module *module = nullptr;
  const emulation::Kernel *kernel = nullptr;
  size_t most_dynamic_shared = 0;
};

// A piece of work: a copy, a fill or a kernel.
struct Work {
  enum class Kind { kUpload, kDownload, kCopy, kFill, kKernel };
  Kind kind;

  // Copies and fills.
  void *to = nullptr;
  const void *from = nullptr;
  size_t bytes = 0;
  unsigned char value = 0;

  // Kernels.
  const Function *function = nullptr;
  emulation::Grid grid = {};
  unsigned block_threads = 0;
  size_t shared_bytes = 0;
  std::vector<std::byte> arguments = {};
};

struct Stream;
struct Capture;

// A place in a stream, and when the stream came to it.
struct Event {
  Context *context = nullptr;
  bool has_timing = false;
  Stream *stream = nullptr;                    // NULL: not recorded
  uint64_t position = 0;                       // of the stream
  uint64_t reached = 0;                        // the device's time then
  std::shared_ptr<Capture> capture = nullptr;  // recorded in this capture
};

struct Record {
  Event *event;
};

struct Stream {
  Context *context = nullptr;
  std::deque<std::variant<Work, Record>> pending;
  uint64_t submitted = 0, done = 0;  // items
  std::shared_ptr<Capture> capture;
};

struct Graph {
  Context *context = nullptr;
  std::vector<Work> work;
};

struct GraphExec {
  Context *context = nullptr;
  std::vector<Work> work;
};

// A recording of one stream.
struct Capture {
  std::thread::id thread;
  CUstreamCaptureMode mode;
  std::vector<Work> work = {};
  bool is_invalid = false;
};

// Owns what handles point to, and remembers handles that are gone. A new one never has an old one's address.
template <class T>
class Table {
 public:
  T *add(T value) {
    owned_.push_back(std::move(value));
    alive_.insert(&owned_.back());
    return &owned_.back();
  }
  bool is_alive(const void *handle) const { return alive_.contains(handle); }
  bool was_alive(const void *handle) const { return gone_.contains(handle); }
  void remove(T &one) {
    alive_.erase(&one);
    gone_.insert(&one);
    one = {};  // keeps the address and no memory
  }
  size_t size() const { return alive_.size(); }
  template <class Visit>
  void for_each(Visit visit) {
    for (T &one : owned_) {
      if (is_alive(&one)) visit(one);
    }
  }

 private:
  std::deque<T> owned_;
  std::set<const void *> alive_, gone_;
};

}  // namespace bonsai::fake
