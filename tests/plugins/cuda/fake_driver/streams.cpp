// Streams and events.
#include "tests/plugins/cuda/fake_driver/work.h"

using namespace bonsai::fake;

namespace {

void refuse_captured(Stream &stream) {
  if (!stream.capture) return;
  stream.capture->is_invalid = true;
  throw Misuse{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is being captured"};
}

Event &find_event(World &world, CUevent handle) { return find(world.events, handle, "event"); }

// One that a stream, not a recording, will come to.
Event &find_plain_event(World &world, CUevent handle) {
  Event &event = find_event(world, handle);
  if (event.capture) throw Misuse{CUDA_ERROR_CAPTURED_EVENT, "the event is in a recording"};
  return event;
}

// What the event marks was on a stream; its work runs even if the stream is gone, which ran it all.
bool is_reached(const World &world, const Event &event) {
  return !event.stream || !world.streams.is_alive(event.stream) || event.stream->done >= event.position;
}

}  // namespace

extern "C" {

CUresult cuStreamCreateWithPriority(CUstream *handle, unsigned flags, int) {
  return call(__func__, kNeedsContext, [&](World &world) {
    if (flags != CU_STREAM_NON_BLOCKING) {
      throw Misuse{CUDA_ERROR_INVALID_VALUE, "the stream would wait for the default stream"};
    }
    Stream stream{};
    stream.context = &current_context();
    *handle = reinterpret_cast<CUstream>(world.streams.add(std::move(stream)));
  });
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  return call(__func__, kNeedsContext | kReleases, [&](World &world) {
    Stream &stream = find_stream(world, handle);
    refuse_captured(stream);
    if (world.broken == CUDA_SUCCESS) run_until(world, stream, stream.submitted);
    world.streams.remove(stream);
  });
}

CUresult cuStreamSynchronize(CUstream handle) {
  return call(__func__, kNeedsContext | kNotWhileCapturing, [&](World &world) {
    Stream &stream = find_stream(world, handle);
    run_until(world, stream, stream.submitted);
  });
}

CUresult cuEventCreate(CUevent *handle, unsigned flags) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Event event{.context = &current_context(), .has_timing = !(flags & CU_EVENT_DISABLE_TIMING)};
    *handle = reinterpret_cast<CUevent>(world.events.add(std::move(event)));
  });
}

CUresult cuEventRecord(CUevent event_handle, CUstream stream_handle) {
  return call(__func__, kNeedsContext, [&](World &world) {
    Event &event = find_event(world, event_handle);
    submit(world, find_stream(world, stream_handle), Record{&event});
  });
}

CUresult cuEventSynchronize(CUevent handle) {
  return call(__func__, kNeedsContext | kNotWhileCapturing, [&](World &world) {
    const Event &event = find_plain_event(world, handle);
    if (!is_reached(world, event)) run_until(world, *event.stream, event.position);
  });
}

CUresult cuEventDestroy_v2(CUevent handle) {
  return call(__func__, kNeedsContext | kReleases,
              [&](World &world) { world.events.remove(find_event(world, handle)); });
}

// cuda.h declares a later version under this name.
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *milliseconds, CUevent start_handle, CUevent end_handle) {
  return call(__func__, kNeedsContext, [&](World &world) {
    const Event &start = find_plain_event(world, start_handle), &end = find_plain_event(world, end_handle);
    if (!start.has_timing || !end.has_timing || !start.stream || !end.stream) {
      throw Misuse{CUDA_ERROR_INVALID_HANDLE, "an event was not recorded, or made without timing"};
    }
    if (!is_reached(world, start) || !is_reached(world, end)) throw Refusal{CUDA_ERROR_NOT_READY};
    *milliseconds = static_cast<float>(end.reached - start.reached);
  });
}

}  // extern "C"
