// The outputs of a call on their way through the device: what is staged for the kernels of selection.cu, which rows are
// computed together, where results will lie, and how they come to the caller. Works on bytes and addresses; copies and
// launches are the session's.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/cuda/kernels/selection_arguments.h"

namespace bonsai::cuda {

struct SelectionLimits {
  uint32_t vocab, hidden;
  uint32_t max_outputs, max_k;
  uint32_t group_rows;  // most rows that are computed together
};

// Bytes of the buffers that a session allocates for its outputs; all are multiples of 16.
struct SelectionSizes {
  explicit SelectionSizes(const SelectionLimits &limits);

  uint64_t staged;    // parameters, on the host (pinned) and on the device
  uint64_t results;   // on the host (pinned), written by the device
  uint64_t partials;  // device
  uint64_t segments;  // device
  uint64_t selected;  // device: (max_outputs) int32
};

// Where the others of those buffers are on the device, and the rows that the kernels work on.
struct SelectionBuffers {
  const void *staged;
  void *partials;
  void *segments;
  int32_t *selected;       // NULL: no token is chained from these outputs
  float *logits;           // (group_rows, logits_stride)
  uint64_t logits_stride;  // floats, at least vocab
};

// Rows that are computed together: first the output norm, then, with the head, the logits and
// select_chunks where `selects` says so, and last select_finish. Two groups of equal size and flags at the same place
// of rounds of equal size have the same launches with the same arguments: a graph may be captured of one and replayed
// for the other.
struct SelectionGroup {
  uint32_t first, n;              // rows of the round
  bool has_logits;                // false: HIDDEN rows, which end with the norm
  bool selects;                   // false: LOGITS rows that nothing adjusts, or HIDDEN rows: without select_chunks
  uint32_t first_copy, n_copies;  // of row_copies()
};

// A whole row that the caller gets: of the group's logits (vocab floats), or of its normed states (hidden floats).
struct RowCopy {
  uint32_t row;  // within the group
  float *to;     // the caller's, (floats)
  uint64_t floats;
};

// One copy to the device, some groups, whose kernels write the results to the host's memory. Most calls are one round;
// a call whose parameters do not fit into the buffers takes several, each staged after the one before was delivered. A
// round allocates nothing after it was made.
class SelectionRound {
 public:
  explicit SelectionRound(const SelectionLimits &limits);

  struct Request {
    const bonsai_output *const *outputs;  // (n), checked
    uint32_t n;
    uint32_t first;  // the first that no round has had yet
  };
  // Writes the parameters of as many outputs as fit, at least one, to `staged` (SelectionSizes::staged bytes).
  // `results` (SelectionSizes::results bytes) is where the device will leave what it found. Returns the first output of
  // the next round; n: this is the last.
  uint32_t stage(const Request &request, std::span<std::byte> staged, void *results);

  uint64_t staged_bytes() const { return staged_bytes_; }  // to copy to the device
  uint64_t result_bytes() const { return result_bytes_; }
  std::span<const SelectionGroup> groups() const { return groups_; }
  std::span<const RowCopy> row_copies(const SelectionGroup &group) const;

  // Writes the callers' results, but for row copies, from what the device left in `results`.
  void deliver(std::span<const std::byte> results) const;

  // The token that feeds each of a group's rows: (n) on the device.
  const uint32_t *tokens(const SelectionGroup &group, const SelectionBuffers &buffers) const;
  // Arguments of select_chunks and select_finish for a group.
  SelectArguments arguments(const SelectionGroup &group, const SelectionBuffers &buffers) const;

 private:
  // Where an output's results go; the caller's pointers live until its ticket is waited for, its struct does not.
  struct Delivery {
    int32_t *top_ids;
    float *top_logits;
    float *log_sum_exp;  // nullptr: not wanted
    float *id_logits;
    uint32_t k, n_ids;
    bool is_top;       // rather than the largest alone
    uint32_t results;  // place, in words
  };
  uint32_t find_end(const Request &request) const;
  void order_outputs(const Request &request, uint32_t end);
  uint64_t first_row() const { return kResultsAddressWords + order_.size(); }
  uint64_t first_parameter() const { return first_row() + sizeof(SelectRow) / 4 * order_.size(); }
  SelectRow stage_row(const bonsai_output &output, uint32_t index, std::span<std::byte> staged);
  uint32_t stage_words(const void *words, uint64_t n, std::span<std::byte> staged);
  void add_to_group(const bonsai_output &output, uint32_t row);

  // Staged are, in words: the results' address, the rows' tokens, the rows, then what they refer to.
  SelectionLimits limits_;
  uint64_t staged_bytes_ = 0, result_bytes_ = 0;
  uint64_t next_parameter_ = 0, next_result_ = 0;
  std::vector<uint32_t> order_;  // the output of each row
  std::vector<SelectionGroup> groups_;
  std::vector<RowCopy> row_copies_;
  std::vector<Delivery> deliveries_;
};

}  // namespace bonsai::cuda
