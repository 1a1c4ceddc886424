// What a token is chosen from: a whole row of logits, or the largest of them, which the device picked out itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bonsai::host {

// What a device can pick out of a row.
struct SelectionLimits {
  uint32_t max_k = 0;    // at most that many logits; 0: it hands out whole rows only
  bool adjusts = false;  // after adjustments and a mask
};

// What is wanted of a row: the k largest logits in falling order (ties: lower id first) after, in this order,
//   l = (l > 0 ? l / repeat : l * repeat) + add  for each adjusted id, and -infinity where the mask's bit is not set.
// These are the ABI's outputs ARGMAX and TOP_K (backend.h).
struct Selection {
  uint32_t k = 0;                            // 0: the whole row as the model made it; the rest then says nothing
  std::vector<int32_t> ids = {};             // that are adjusted, each once; quickest where they rise
  std::vector<float> add = {}, repeat = {};  // as many as ids; repeat > 0
  std::span<const uint32_t> mask = {};       // bit i % 32 of word i / 32 is token i's; empty: all are allowed
  bool is_lasting = false;                   // whatever is chosen, the same is wanted of the rows that follow
};

// What a device found.
struct TopLogits {
  std::vector<int32_t> ids;   // (k)
  std::vector<float> logits;  // (k)
};

// What came of a Selection.
struct Row {
  std::vector<float> logits;  // (vocabulary) where k was 0
  TopLogits top;              // where it was not

  bool is_whole() const { return top.ids.empty(); }
};

}  // namespace bonsai::host
