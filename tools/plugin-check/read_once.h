// What a backend may read during one call only: copies that are spoiled once it has returned, so that one that kept a
// pointer computes with NaN and nonsense.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace bonsai::check {

// Memory for arrays that are handed over.
class ReadOnce {
 public:
  ReadOnce() = default;
  ReadOnce(const ReadOnce &) = delete;
  ReadOnce &operator=(const ReadOnce &) = delete;

  // A copy of `n` elements; NULL stays NULL.
  template <class T>
  T *copy(const T *elements, size_t n) {
    if (elements == nullptr) return nullptr;
    auto &bytes = arrays_.emplace_back((n * sizeof(T) + sizeof(uint64_t) - 1) / sizeof(uint64_t) + 1);
    auto *const copied = reinterpret_cast<T *>(bytes.data());
    for (size_t i = 0; i < n; ++i) copied[i] = elements[i];
    return copied;
  }
  // From here on the arrays hold what is NaN as a float, and as a number or pointer leads nowhere.
  void spoil();

 private:
  std::deque<std::vector<uint64_t>> arrays_;
};

// A model's specification, with all that it points at.
class ModelReadOnce {
 public:
  explicit ModelReadOnce(const bonsai_model_spec &spec);
  const bonsai_model_spec &get() const { return *spec_; }
  void spoil() { memory_.spoil(); }

 private:
  const bonsai_layer_spec *copy(const bonsai_layer_spec &layer, const bonsai_model_spec &spec);

  ReadOnce memory_;
  const bonsai_model_spec *spec_;
};

// A batch, and what is wanted of it: results go where they would.
class BatchReadOnce {
 public:
  BatchReadOnce(const bonsai_batch &batch, const bonsai_model_spec &spec, const bonsai_output *const *outputs,
                uint32_t n_outputs);
  const bonsai_batch &batch() const { return *batch_; }
  const bonsai_output *const *outputs() const { return outputs_; }
  void spoil() { memory_.spoil(); }

 private:
  ReadOnce memory_;
  const bonsai_batch *batch_;
  const bonsai_output *const *outputs_;
};

}  // namespace bonsai::check
