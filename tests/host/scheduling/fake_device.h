// A device that remembers, for each slot of its KV cache, which beginning of a text was written there, and so knows
// whether what a step reads is what it should read.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "host/scheduling/scheduler.h"

namespace bonsai::host {

// A text, and for each of its tokens a number that stands for that token and all before it: that of its keys and
// values.
class FakeText {
 public:
  explicit FakeText(std::vector<int32_t> tokens = {});
  void append(int32_t token);
  const std::vector<int32_t> &tokens() const { return tokens_; }
  uint64_t state(size_t position) const { return states_[position]; }
  // What the fake model says next, of `vocab` tokens.
  int32_t next(int32_t vocab) const { return static_cast<int32_t>(states_.back() % static_cast<uint64_t>(vocab)); }

 private:
  std::vector<int32_t> tokens_;
  std::vector<uint64_t> states_;
};

class FakeDevice {
 public:
  explicit FakeDevice(const SchedulerConfig &config);

  // Runs a step as the ABI wants one (bonsai_batch). `text_of` tells what a request's text is, as those know it who
  // asked for it. Returns what is wrong with the step; empty: nothing.
  using TextOf = std::function<const FakeText *(RequestId)>;
  std::string run(const Step &step, const TextOf &text_of);

  // Whether the block holds the last tokens of this text: those of its last block, be it full or not.
  bool holds_end(uint32_t block, const FakeText &text) const;

 private:
  std::string check_shape(const Step &step) const;
  std::string check_writes(const Step &step) const;
  std::string write(const Step &step, const std::vector<FakeText> &texts);
  std::string check_reads(const Step &step, const TextOf &text_of, const std::vector<FakeText> &texts) const;
  uint64_t &slot(const Step &step, uint32_t row, uint32_t position);
  const uint64_t &slot(const Step &step, uint32_t row, uint32_t position) const;

  const SchedulerConfig config_;
  std::vector<uint64_t> states_;  // (n_blocks, block_size); 0: nothing was written yet
};

}  // namespace bonsai::host
