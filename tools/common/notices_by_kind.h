// What there is to say about tensors, without saying it again for each layer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bonsai::tools {

// One line for all tensors that differ in the layer's number alone: "blk.*.ffn_up.weight (28 tensors): ...". That is
// also a pattern for bonsai-quantize's --keep.
class NoticesByKind {
 public:
  void add(std::string_view tensor, std::string what);
  // That nothing is left of a tensor in a format that holds no weights as small.
  void add_vanished(std::string_view tensor, std::string_view format);
  void append_to(std::vector<std::string> &notices) const;

 private:
  using Subject = std::pair<std::string, std::string>;  // the kind of tensor and what is said about it
  struct Notice {
    const Subject *subject;
    std::string first_tensor;
    uint64_t tensors;
  };
  std::vector<Notice> notices_;       // in order of appearance
  std::map<Subject, size_t> places_;  // in notices_
};

}  // namespace bonsai::tools
