// Structs as a newer version of the ABI has them: longer than in this one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include "tools/plugin-check/context.h"

namespace bonsai::check {

// A T whose appended bytes are junk to whoever reads them, and must stay what they are.
template <class T>
class Grown {
 public:
  explicit Grown(const T &known = {}) : known_(known) {
    std::memset(appended_, kJunk, sizeof appended_);
    known_.struct_size = kSize;
  }

  T *operator->() { return &known_; }
  T *get() { return &known_; }

  // Fails the check if whoever filled it changed its size, or wrote behind what is in this version.
  void expect_kept(const char *what) const {
    expect(known_.struct_size == kSize, "{}: struct_size is {} after the call, expected the caller's {}", what,
           known_.struct_size, kSize);
    const bool kept =
        std::all_of(appended_, appended_ + sizeof appended_, [](unsigned char byte) { return byte == kJunk; });
    expect(kept, "{}: bytes behind the fields of version {}.{} were written", what, BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  }

 private:
  static constexpr unsigned char kJunk = 0xA5;
  static constexpr size_t kAppended = 16;
  static constexpr uint32_t kSize = sizeof(T) + kAppended;

  T known_;
  unsigned char appended_[kAppended];
};

// An array of them, as the ABI has arrays: pointers, whose elements do not follow each other at a distance of
// sizeof(T).
template <class T>
class GrownArray {
 public:
  GrownArray() = default;
  GrownArray(const GrownArray &) = delete;
  GrownArray &operator=(const GrownArray &) = delete;

  T &add(const T &element) {
    T *const added = elements_.emplace_back(element).get();
    pointers_.push_back(added);
    return *added;
  }
  const T *const *data() const { return pointers_.data(); }
  uint32_t size() const { return static_cast<uint32_t>(pointers_.size()); }

 private:
  std::deque<Grown<T>> elements_;
  std::vector<const T *> pointers_;
};

}  // namespace bonsai::check
