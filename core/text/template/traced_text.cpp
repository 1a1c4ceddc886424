#include "core/text/template/traced_text.h"

#include <algorithm>

namespace bonsai::jinja {
namespace {

// The first range that ends behind `at`.
std::vector<ByteRange>::const_iterator first_behind(const std::vector<ByteRange> &ranges, size_t at) {
  return std::partition_point(ranges.begin(), ranges.end(), [at](const ByteRange &range) { return range.end <= at; });
}

}  // namespace

TracedText::TracedText(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (origin == Origin::kTemplate) add_range({0, bytes_.size()});
}

void TracedText::add_range(ByteRange range) {
  if (range.begin == range.end) return;
  if (!ranges_.empty() && ranges_.back().end == range.begin) {
    ranges_.back().end = range.end;
  } else {
    ranges_.push_back(range);
  }
}

void TracedText::append(std::string_view bytes, Origin origin) {
  if (origin == Origin::kTemplate) add_range({bytes_.size(), bytes_.size() + bytes.size()});
  bytes_ += bytes;
}

void TracedText::append(const TracedText &other, ByteRange range) {
  const size_t start = bytes_.size();
  for (auto it = first_behind(other.ranges_, range.begin); it != other.ranges_.end() && it->begin < range.end; ++it) {
    const size_t begin = std::max(it->begin, range.begin), end = std::min(it->end, range.end);
    add_range({start + begin - range.begin, start + end - range.begin});
  }
  bytes_.append(other.bytes_, range.begin, range.end - range.begin);
}

TracedText TracedText::slice(ByteRange range) const {
  TracedText part;
  part.append(*this, range);
  return part;
}

Origin TracedText::origin(ByteRange range) const {
  const auto it = first_behind(ranges_, range.begin);
  const bool within = it != ranges_.end() && it->begin <= range.begin && range.end <= it->end;
  return within ? Origin::kTemplate : Origin::kInput;
}

}  // namespace bonsai::jinja
