// SelectionRound stages what kernels need, in as many rounds as its buffers ask for.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <numeric>

#include "tests/plugins/cuda/selection/allocations.h"
#include "tests/plugins/cuda/selection/runner.h"

namespace bonsai::cuda {
namespace {

// A call's outputs, and the rounds that it takes.
class Calls {
 public:
  Calls(uint32_t vocab, uint32_t max_outputs)
      : limits_(limits_of({.vocab = vocab}, max_outputs)), sizes_(limits_), staged_(sizes_.staged), round_(limits_) {}

  void add(const Wanted &wanted) {
    wanted_.push_back(std::make_unique<Wanted>(wanted));
    given_.push_back(std::make_unique<Given>());
    outputs_.push_back(std::make_unique<bonsai_output>(output_of(*wanted_.back(), *given_.back(), limits_.vocab)));
    pointers_.push_back(outputs_.back().get());
  }

  uint32_t stage(uint32_t first) {
    return round_.stage({.outputs = pointers_.data(), .n = static_cast<uint32_t>(pointers_.size()), .first = first},
                        staged_, reinterpret_cast<void *>(uintptr_t{0x2000}));
  }

  // How many outputs each round has.
  std::vector<uint32_t> rounds() {
    std::vector<uint32_t> sizes;
    for (uint32_t first = 0; first < pointers_.size();) {
      const uint32_t next = stage(first);
      sizes.push_back(next - first);
      EXPECT_LE(round_.staged_bytes(), sizes_.staged);
      EXPECT_LE(round_.result_bytes(), sizes_.results);
      if (next == first) break;
      first = next;
    }
    return sizes;
  }

  const SelectionRound &round() const { return round_; }
  const SelectionSizes &sizes() const { return sizes_; }
  std::span<const std::byte> staged() const { return staged_; }

 private:
  SelectionLimits limits_;
  SelectionSizes sizes_;
  std::vector<std::byte> staged_;
  SelectionRound round_;
  std::vector<std::unique_ptr<Wanted>> wanted_;
  std::vector<std::unique_ptr<Given>> given_;
  std::vector<std::unique_ptr<bonsai_output>> outputs_;
  std::vector<const bonsai_output *> pointers_;
};

Wanted everything(uint32_t vocab) {
  Wanted wanted = {.kind = BONSAI_OUTPUT_TOP_K, .k = std::min(vocab, kMaxSelected), .temperature = 0.5f};
  wanted.ids.resize(vocab);
  std::iota(wanted.ids.begin(), wanted.ids.end(), 0);
  wanted.adjust_ids = wanted.ids;
  wanted.adjust_add.assign(vocab, 1.0f);
  wanted.adjust_repeat.assign(vocab, 2.0f);
  wanted.mask.assign((vocab + 31) / 32, ~0u);
  return wanted;
}

TEST(SelectionRound, HoldsOneOutputWhateverItAsksFor) {
  for (const uint32_t vocab : {1u, 33u, 20'000u}) {
    Calls calls(vocab, 1);
    calls.add(everything(vocab));
    EXPECT_EQ(calls.rounds(), std::vector<uint32_t>{1});
  }
}

TEST(SelectionRound, TakesFurtherRoundsForWhatDoesNotFit) {
  Calls small(100, 1500);
  for (int i = 0; i < 1300; ++i) small.add({.kind = BONSAI_OUTPUT_ARGMAX});
  EXPECT_EQ(small.rounds(), (std::vector<uint32_t>{512, 512, 276}));

  Calls large(20'000, 8);
  large.add({.kind = BONSAI_OUTPUT_ARGMAX});
  for (int i = 0; i < 3; ++i) large.add(everything(20'000));
  large.add({.kind = BONSAI_OUTPUT_HIDDEN});
  EXPECT_EQ(large.rounds(), (std::vector<uint32_t>{1, 1, 1, 2}));
}

TEST(SelectionRound, GroupsRowsWithLogitsBeforeHiddenOnes) {
  Calls calls(100, 16);
  for (int i = 0; i < 7; ++i) calls.add({.kind = i % 2 ? BONSAI_OUTPUT_HIDDEN : BONSAI_OUTPUT_LOGITS});
  calls.add({.kind = BONSAI_OUTPUT_ARGMAX});
  EXPECT_EQ(calls.stage(0), 8u);
  std::vector<std::string> groups;
  for (const SelectionGroup &group : calls.round().groups()) {
    groups.push_back(fmt::format("{} rows from {}, {} copies{}{}", group.n, group.first,
                                 calls.round().row_copies(group).size(), group.has_logits ? ", logits" : "",
                                 group.selects ? ", selects" : ""));
  }
  EXPECT_EQ(groups, (std::vector<std::string>{"4 rows from 0, 4 copies, logits",
                                              "1 rows from 4, 0 copies, logits, selects", "3 rows from 5, 3 copies"}));
}

// What a graph that was captured for the one call needs to serve the other.
TEST(SelectionRound, GivesCallsOfOneShapeTheSameArguments) {
  const auto arguments_of = [](Calls &calls) {
    EXPECT_EQ(calls.stage(0), 2u);
    EXPECT_EQ(calls.round().groups().size(), 1u);
    const SelectionGroup &group = calls.round().groups()[0];
    EXPECT_TRUE(group.n == 2 && group.has_logits && group.selects);
    const auto address = [](uintptr_t at) { return reinterpret_cast<void *>(at); };
    const SelectArguments arguments = calls.round().arguments(group, {.staged = address(0x1000),
                                                                      .partials = address(0x3000),
                                                                      .segments = address(0x4000),
                                                                      .selected = nullptr,
                                                                      .logits = nullptr,
                                                                      .logits_stride = 1000});
    std::array<std::byte, sizeof arguments> bytes;
    std::memcpy(bytes.data(), &arguments, sizeof arguments);
    return bytes;
  };
  Calls plain(1000, 4), adjusted(1000, 4);
  for (uint32_t i = 0; i < 2; ++i) {
    plain.add({.kind = BONSAI_OUTPUT_ARGMAX, .token = i});
    adjusted.add(everything(1000));
  }
  EXPECT_EQ(arguments_of(plain), arguments_of(adjusted));
}

TEST(SelectionRound, AllocatesNothingAfterItWasMade) {
  Calls calls(1000, 1024);
  for (int i = 0; i < 1024; ++i) calls.add({.kind = i % 2 ? BONSAI_OUTPUT_HIDDEN : BONSAI_OUTPUT_ARGMAX});
  const uint64_t before = allocations();
  calls.stage(calls.stage(0));
  EXPECT_EQ(allocations(), before);
}

}  // namespace
}  // namespace bonsai::cuda
