// The end of a forward pass: output norm, head, and what the caller asked for of each row.
#include <algorithm>

#include "plugins/cuda/packing.h"
#include "plugins/cuda/session.h"

namespace bonsai::cuda {

SelectionBuffers Session::selection_buffers(const Slot &slot) const {
  return {.staged = scratch(layout_.sent + slot.shape.parameters),
          .partials = scratch(layout_.select_partials),
          .segments = scratch(layout_.segments),
          .selected = scratch_.as<int32_t>(layout_.selected),
          .logits = floats(layout_.logits),
          .logits_stride = shape_.model.vocab};
}

// Writes the parameters of as many outputs as fit into the slot; returns the first of the next round.
uint32_t Session::stage_round(const Request &request, uint32_t first, Slot &slot) {
  const uint64_t place = slot.shape.parameters;
  return slot.round.stage({.outputs = request.outputs, .n = request.n, .first = first},
                          {slot.sent.as<std::byte>(place), slot.sent.bytes() - place}, slot.results.data());
}

// The same, and sends them alone.
uint32_t Session::send_round(const Request &request, uint32_t first, Slot &slot) {
  const uint32_t next = stage_round(request, first, slot);
  send(slot, slot.shape.parameters, slot.shape.parameters + slot.round.staged_bytes());
  return next;
}

// Rows of x through the norm and, where logits are asked for, the head and selection.
void Session::run_group(const Slot &slot, const SelectionGroup &group) {
  const DeviceSpan span(device_, Phase::kHead);
  const ModelShape &model = shape_.model;
  SelectionBuffers buffers = selection_buffers(slot);
  if (&slot == slots_[kSlots].get()) buffers.selected = nullptr;  // tokens are chained from submits alone
  const uint32_t *tokens = slot.round.tokens(group, buffers);
  if (group.has_logits) {
    multiply_head(group.n, tokens);
  } else {
    RowsToPack normed = rows_to_pack({}, group.n, model.hidden);
    normed.x = floats(layout_.x);
    normed.picked = tokens;
    normed.norm = model_.output_norm();
    normed.eps = model_.rms_eps();
    normed.y = floats(layout_.normed);
    pack_rows(device_, normed);
  }
  const SelectArguments arguments = slot.round.arguments(group, buffers);
  if (group.selects) {
    device_.launch("selection", "select_chunks",
                   {.grid = {arguments.n_chunks, group.n, 1}, .threads = kSelectChunkThreads}, arguments);
  }
  device_.launch("selection", "select_finish", {.grid = {group.n, 1, 1}, .threads = kSelectFinishThreads}, arguments);
}

// Logits of n rows of x.
void Session::multiply_head(uint64_t n, const uint32_t *picked) {
  const Step step = {.phase = Phase::kHead,
                     .rows = model_.head(),
                     .n = n,
                     .columns = shape_.model.hidden,
                     .source = PackedSource::kNormed,
                     .x = floats(layout_.x),
                     .picked = picked,
                     .norm = model_.output_norm(),
                     .bias = nullptr,
                     .y = floats(layout_.logits),
                     .y_stride = shape_.model.vocab,
                     .add = false};
  multiply_packed(step, pack(step));
  if (device_.profile().is_on()) device_.profile().add_bytes(Phase::kHead, bytes_of_rows(step.rows));
}

// Starts bringing a group's whole rows to the host, behind those that are pending.
void Session::fetch_rows(Slot &slot, const SelectionGroup &group) {
  const float *from = floats(group.has_logits ? layout_.logits : layout_.normed);
  const uint64_t row_floats = group.has_logits ? shape_.model.vocab : shape_.model.hidden;
  for (const RowCopy &copy : slot.round.row_copies(group)) {
    void *to = slot.rows.as<std::byte>(slot.pending.size() * row_stride_bytes());
    device_.stream().download(to, from + copy.row * row_floats, copy.floats * sizeof(float));
    slot.pending.push_back(copy);
  }
}

// Gives the callers what the device has left, and the rows that were fetched. Precondition: all is there.
void Session::deliver(Slot &slot) {
  if (!slot.has_results) return;
  slot.has_results = false;
  slot.round.deliver({slot.results.as<std::byte>(), slot.round.result_bytes()});
  deliver_rows(slot);
}

void Session::deliver_rows(Slot &slot) {
  for (size_t i = 0; i < slot.pending.size(); ++i) {
    std::copy_n(slot.rows.as<float>(i * row_stride_bytes()), slot.pending[i].floats, slot.pending[i].to);
  }
  slot.pending.clear();
}

// Runs a staged round's groups; rows of all but the last are delivered at once, since the next group needs their place.
void Session::run_groups(Slot &slot) {
  for (const SelectionGroup &group : slot.round.groups()) {
    if (slot.pending.size() + group.n > shape_.selection.group_rows) {
      device_.stream().synchronize();
      deliver_rows(slot);
    }
    run_group(slot, group);
    fetch_rows(slot, group);
  }
  slot.has_results = true;
}

// The rounds after the first, from output `first` on: each takes the buffers over when the one before was delivered.
void Session::run_rounds(const Request &request, uint32_t first, Slot &slot) {
  while (first < request.n) {
    device_.stream().synchronize();
    deliver(slot);
    first = send_round(request, first, slot);
    run_groups(slot);
  }
}

// Norm, head and selection over rows of x, delivered on return.
void Session::run_head(const Request &request) {
  Slot &slot = own_slot();
  slot.has_results = false;  // a call that failed may have left some
  slot.pending.clear();
  slot.shape = {};  // parameters alone
  const uint32_t next = send_round(request, 0, slot);
  run_groups(slot);
  run_rounds(request, next, slot);
  device_.stream().synchronize();
  deliver(slot);
}

// The same over rows that the caller brings, any number of them: those that are asked for go to x, a batch at a time.
void Session::head_over(const float *in, const Request &request) {
  const uint64_t hidden = shape_.model.hidden;
  std::vector<float> rows;
  std::vector<bonsai_output> moved;
  std::vector<const bonsai_output *> pointers;
  for (uint32_t first = 0; first < request.n; first += shape_.batch.max_tokens) {
    const uint32_t n = std::min(shape_.batch.max_tokens, request.n - first);
    rows.clear();
    moved.clear();
    pointers.clear();
    for (uint32_t i = 0; i < n; ++i) {
      const bonsai_output &output = *request.outputs[first + i];
      const float *row = in + output.token * hidden;
      rows.insert(rows.end(), row, row + hidden);
      moved.push_back(output);
      moved.back().struct_size = sizeof(bonsai_output);
      moved.back().token = i;
    }
    for (const bonsai_output &output : moved) pointers.push_back(&output);
    run_to_end(device_.stream(), [&] {
      device_.stream().upload(scratch(layout_.x), rows.data(), rows.size() * sizeof(float));
      run_head({.outputs = pointers.data(), .n = n});
    });
  }
  n_states_ = 0;  // x holds other rows now
}

}  // namespace bonsai::cuda
