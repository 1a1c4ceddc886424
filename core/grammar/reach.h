// Which states of a graph are reached from others.
#pragma once

#include <cstdint>
#include <vector>

namespace bonsai::grammar {

// From `open`, these included, along edges[state].
inline std::vector<bool> reached(const std::vector<std::vector<uint32_t>> &edges, std::vector<uint32_t> open) {
  std::vector<bool> reached(edges.size());
  for (const uint32_t state : open) reached[state] = true;
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    for (const uint32_t other : edges[state]) {
      if (reached[other]) continue;
      reached[other] = true;
      open.push_back(other);
    }
  }
  return reached;
}

}  // namespace bonsai::grammar
