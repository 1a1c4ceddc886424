#include "tests/host/scheduling/fake_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace bonsai::host {
namespace {

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

uint32_t table_entry(const Step &step, uint32_t row, uint32_t column) {
  return step.block_table[size_t{row} * step.blocks_per_sequence + column];
}

}  // namespace

FakeText::FakeText(std::vector<int32_t> tokens) {
  for (const int32_t token : tokens) append(token);
}

void FakeText::append(int32_t token) {
  const uint64_t before = states_.empty() ? 1 : states_.back();
  tokens_.push_back(token);
  states_.push_back(mix(before + 0x9E3779B97F4A7C15u * (static_cast<uint64_t>(token) + 1)));
}

FakeDevice::FakeDevice(const SchedulerConfig &config)
    : config_(config), states_(size_t{config.n_blocks} * config.block_size) {}

uint64_t &FakeDevice::slot(const Step &step, uint32_t row, uint32_t position) {
  return states_[size_t{table_entry(step, row, position / config_.block_size)} * config_.block_size +
                 position % config_.block_size];
}
const uint64_t &FakeDevice::slot(const Step &step, uint32_t row, uint32_t position) const {
  return const_cast<FakeDevice *>(this)->slot(step, row, position);
}

std::string FakeDevice::run(const Step &step, const TextOf &text_of) {
  std::string wrong = check_shape(step);
  if (!wrong.empty()) return wrong;
  for (size_t i = 0; i < step.copy_from.size(); ++i) {
    const auto block = [&](uint32_t id) { return states_.begin() + std::ptrdiff_t{id} * config_.block_size; };
    std::copy_n(block(step.copy_from[i]), config_.block_size, block(step.copy_to[i]));
  }
  wrong = check_writes(step);
  if (!wrong.empty()) return wrong;
  std::vector<FakeText> texts;  // with what is guessed
  for (const Step::Row &row : step.rows) {
    const FakeText *text = text_of(row.id);
    if (text == nullptr) return fmt::format("request {} is not there any more", row.id);
    texts.push_back(*text);
    const size_t first = size_t{row.last_token} + 1;
    if (first + row.n_guesses > step.tokens.size()) return fmt::format("request {}: guesses beyond the step", row.id);
    for (size_t i = first; i < first + row.n_guesses; ++i) texts.back().append(step.tokens[i]);
  }
  wrong = write(step, texts);
  return wrong.empty() ? check_reads(step, text_of, texts) : wrong;
}

std::string FakeDevice::check_shape(const Step &step) const {
  const size_t n = step.tokens.size();
  if (n == 0 || n > config_.batch_tokens) return fmt::format("{} tokens in a step of {}", n, config_.batch_tokens);
  if (step.rows.size() > config_.max_sequences) return fmt::format("{} rows", step.rows.size());
  uint32_t n_outputs = 0;
  for (const Step::Row &row : step.rows) n_outputs += row.n_outputs - row.n_guesses;
  if (n_outputs > std::max(config_.max_outputs, config_.max_sequences)) return fmt::format("{} outputs", n_outputs);
  if (step.positions.size() != n || step.sequences.size() != n) return "arrays of different lengths";
  if (step.block_table.size() != step.rows.size() * step.blocks_per_sequence) return "a table of another size";
  if (step.copy_from.size() != step.copy_to.size()) return "copies without destination";
  const auto outside = [&](uint32_t block) { return block >= config_.n_blocks; };
  if (std::any_of(step.block_table.begin(), step.block_table.end(), outside) ||
      std::any_of(step.copy_from.begin(), step.copy_from.end(), outside) ||
      std::any_of(step.copy_to.begin(), step.copy_to.end(), outside))
    return "a block outside the pool";
  for (size_t i = 0; i < n; ++i) {
    if (step.sequences[i] >= step.rows.size() || step.positions[i] >= config_.context ||
        step.positions[i] / config_.block_size >= step.blocks_per_sequence)
      return fmt::format("token {} is outside the table", i);
  }
  return {};
}

// No two rows of the table share a block that the step writes, and no position is written twice.
std::string FakeDevice::check_writes(const Step &step) const {
  std::map<uint32_t, uint32_t> written;  // block: row
  std::set<std::pair<uint32_t, uint32_t>> positions;
  std::vector<uint32_t> n_columns(step.rows.size());
  for (size_t i = 0; i < step.tokens.size(); ++i) {
    const uint32_t row = step.sequences[i], column = step.positions[i] / config_.block_size;
    written[table_entry(step, row, column)] = row;
    n_columns[row] = std::max(n_columns[row], column + 1);
    if (!positions.insert({row, step.positions[i]}).second) return "a position is written twice";
  }
  for (uint32_t row = 0; row < step.rows.size(); ++row) {
    for (uint32_t column = 0; column < n_columns[row]; ++column) {
      const auto found = written.find(table_entry(step, row, column));
      if (found != written.end() && found->second != row)
        return fmt::format("block {} is written while another request reads it", found->first);
    }
  }
  return {};
}

std::string FakeDevice::write(const Step &step, const std::vector<FakeText> &texts) {
  for (size_t i = 0; i < step.tokens.size(); ++i) {
    const uint32_t row = step.sequences[i], position = step.positions[i];
    const FakeText &text = texts[row];
    if (position >= text.tokens().size() || text.tokens()[position] != step.tokens[i])
      return fmt::format("request {}: another token at position {}", step.rows[row].id, position);
    slot(step, row, position) = text.state(position);
  }
  return {};
}

std::string FakeDevice::check_reads(const Step &step, const TextOf &text_of, const std::vector<FakeText> &texts) const {
  size_t end = 0;
  for (uint32_t row = 0; row < step.rows.size(); ++row) {
    const Step::Row &info = step.rows[row];
    end += info.n_tokens + info.n_guesses;
    if (info.n_tokens == 0 || end > step.tokens.size() || info.last_token + info.n_guesses != end - 1 ||
        step.sequences[end - 1] != row)
      return fmt::format("request {}: its tokens are not where the step says", info.id);
    for (uint32_t position = 0; position <= step.positions[end - 1]; ++position) {
      if (slot(step, row, position) != texts[row].state(position))
        return fmt::format("request {} reads what is not its own at position {}", info.id, position);
    }
    const uint32_t last = step.positions[info.last_token];
    if (info.n_outputs > info.n_tokens + info.n_guesses || (info.wants_next && info.n_outputs <= info.n_guesses))
      return fmt::format("request {}: {} outputs", info.id, info.n_outputs);
    if (info.wants_next != (last + 1 == text_of(info.id)->tokens().size()))
      return fmt::format("request {}: logits are wanted behind position {}", info.id, last);
    if (!info.wants_next && info.n_guesses > 0) return fmt::format("request {}: guesses in its prompt", info.id);
  }
  return {};
}

bool FakeDevice::holds_end(uint32_t block, const FakeText &text) const {
  const size_t n = text.tokens().size(), first = (n - 1) / config_.block_size * config_.block_size;
  for (size_t position = first; position < n; ++position) {
    if (states_[size_t{block} * config_.block_size + position - first] != text.state(position)) return false;
  }
  return true;
}

}  // namespace bonsai::host
