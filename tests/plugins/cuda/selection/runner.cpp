#include "tests/plugins/cuda/selection/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "plugins/common/output_checker.h"

namespace bonsai::cuda {
namespace {

constexpr size_t kMargin = 64;  // bytes behind a buffer
constexpr std::byte kRubbish{0xA5};
constexpr uint64_t kExtraStride = 3;

class Rubbish {
 public:
  explicit Rubbish(uint64_t bytes) : bytes_(bytes + kMargin, kRubbish) {}
  ~Rubbish() {
    const auto is_rubbish = [](std::byte byte) { return byte == kRubbish; };
    EXPECT_TRUE(std::all_of(bytes_.end() - kMargin, bytes_.end(), is_rubbish)) << "written past a buffer's end";
  }
  std::span<std::byte> span() { return {bytes_.data(), bytes_.size() - kMargin}; }
  template <class T>
  T *as() {
    return reinterpret_cast<T *>(bytes_.data());
  }

 private:
  std::vector<std::byte> bytes_;
};

class Machine {
 public:
  Machine(const Setting &setting, const std::vector<std::vector<float>> &rows, uint32_t max_outputs)
      : setting_(setting),
        rows_(rows),
        limits_(limits_of(setting, max_outputs)),
        sizes_(limits_),
        staged_(sizes_.staged),
        results_(sizes_.results),
        partials_(sizes_.partials),
        segments_(sizes_.segments),
        selected_(sizes_.selected),
        logits_(setting.group_rows * stride() * sizeof(float)) {}

  std::vector<Given> run(const std::vector<Wanted> &wanted) {
    std::vector<Given> given(wanted.size());
    std::vector<bonsai_output> outputs;
    for (size_t i = 0; i < wanted.size(); ++i) outputs.push_back(output_of(wanted[i], given[i], setting_.vocab));
    std::vector<const bonsai_output *> pointers;
    for (const bonsai_output &output : outputs) pointers.push_back(&output);
    const auto n = static_cast<uint32_t>(wanted.size());
    check(pointers);
    SelectionRound round(limits_);
    for (uint32_t first = 0; first < n;) {
      first = round.stage({.outputs = pointers.data(), .n = n, .first = first}, staged_.span(), results_.span().data());
      EXPECT_LE(round.staged_bytes(), sizes_.staged);
      EXPECT_LE(round.result_bytes(), sizes_.results);
      for (const SelectionGroup &group : round.groups()) run_group(round, group);
      round.deliver(results_.span().first(round.result_bytes()));
    }
    for (uint32_t i = 0; i < n; ++i) given[i].selected = selected_.as<int32_t>()[i];
    return given;
  }

 private:
  uint64_t stride() const { return setting_.vocab + kExtraStride; }

  void check(const std::vector<const bonsai_output *> &outputs) const {
    const plugin::OutputChecker checker(
        {.vocab = setting_.vocab, .max_outputs = limits_.max_outputs, .max_k = limits_.max_k, .has_head = true});
    const auto n = static_cast<uint32_t>(outputs.size());
    checker.check({.outputs = outputs.data(), .n = n, .n_rows = static_cast<uint32_t>(rows_.size())});
  }

  void run_group(const SelectionRound &round, const SelectionGroup &group) {
    const SelectionBuffers buffers = {.staged = staged_.span().data(),
                                      .partials = partials_.span().data(),
                                      .segments = segments_.span().data(),
                                      .selected = setting_.chains ? selected_.as<int32_t>() : nullptr,
                                      .logits = logits_.as<float>(),
                                      .logits_stride = stride()};
    EXPECT_LE(group.n, setting_.group_rows);
    for (uint32_t row = 0; row < group.n; ++row) {
      std::copy_n(rows_[round.tokens(group, buffers)[row]].data(), setting_.vocab,
                  logits_.as<float>() + row * stride());
    }
    const SelectArguments arguments = round.arguments(group, buffers);
    if (group.selects) launch("select_chunks", {arguments.n_chunks, group.n}, kSelectChunkThreads, arguments);
    launch("select_finish", {group.n}, kSelectFinishThreads, arguments);
    for (const RowCopy &copy : round.row_copies(group)) {
      std::copy_n(logits_.as<float>() + copy.row * stride(), copy.floats, copy.to);
    }
  }

  void launch(const char *kernel, const emulation::Grid &grid, unsigned threads, const SelectArguments &arguments) {
    emulation::launch({"selection.cu", kernel, setting_.order}, grid, threads, 0, &arguments);
  }

  Setting setting_;
  const std::vector<std::vector<float>> &rows_;
  SelectionLimits limits_;
  SelectionSizes sizes_;
  Rubbish staged_, results_, partials_, segments_, selected_, logits_;
};

}  // namespace

SelectionLimits limits_of(const Setting &setting, uint32_t max_outputs) {
  return {.vocab = setting.vocab,
          .hidden = setting.vocab,
          .max_outputs = max_outputs,
          .max_k = kMaxSelected,
          .group_rows = setting.group_rows};
}

std::vector<Given> run(const Setting &setting, const std::vector<std::vector<float>> &rows,
                       const std::vector<Wanted> &wanted) {
  return Machine(setting, rows, static_cast<uint32_t>(wanted.size())).run(wanted);
}

}  // namespace bonsai::cuda
