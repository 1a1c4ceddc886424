#include "tests/conformance/faulty_batch.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace bonsai::test {
namespace {

struct Slot {
  uint32_t block, position;  // position within the block
};

Slot slot_of(const Session &session, const bonsai_batch &batch, uint32_t i) {
  const uint32_t size = session.config.block_size, column = batch.positions[i] / size;
  return {batch.block_table[uint64_t{batch.sequences[i]} * batch.blocks_per_sequence + column],
          batch.positions[i] % size};
}

std::vector<std::byte> export_block(Session &session, uint32_t block) {
  const uint32_t n_tokens = session.config.block_size;
  std::vector<std::byte> data(2 * session.layers * n_tokens * session.kv_row_bytes);
  cpu().kv_export(session.inner, &block, 1, n_tokens, data.data(), data.size(), nullptr);
  return data;
}

void import_block(Session &session, uint32_t block, const std::vector<std::byte> &data) {
  cpu().kv_import(session.inner, &block, 1, session.config.block_size, data.data(), data.size(), nullptr);
}

// Puts old keys and values back where a batch replaced them: no rollback.
class OldValues {
 public:
  OldValues(Session &session, const bonsai_batch &batch) : session_(session) {
    for (uint32_t i = 0; i < batch.n_tokens; ++i) {
      const Slot slot = slot_of(session, batch, i);
      const uint64_t at = uint64_t{slot.block} * session.config.block_size + slot.position;
      if (session.written[at]) kept_.push_back(slot);
      session.written[at] = true;
    }
    for (const Slot &slot : kept_) {
      if (!blocks_.contains(slot.block)) blocks_[slot.block] = export_block(session, slot.block);
    }
  }

  void restore() {
    for (const auto &[block, old] : blocks_) {
      std::vector<std::byte> data = export_block(session_, block);
      for (const Slot &slot : kept_) {
        if (slot.block == block) copy_slot(old, slot.position, data);
      }
      import_block(session_, block, data);
    }
  }

 private:
  void copy_slot(const std::vector<std::byte> &from, uint32_t position, std::vector<std::byte> &to) const {
    const uint64_t row = session_.kv_row_bytes, plane = row * session_.config.block_size;
    for (uint64_t at = position * row; at < from.size(); at += plane) std::memcpy(&to[at], &from[at], row);
  }

  Session &session_;
  std::vector<Slot> kept_;
  std::map<uint32_t, std::vector<std::byte>> blocks_;
};

// Every token one position further, behind a key and a value of zeros: attention that reads one slot too many. Rotation
// does not notice, since it is relative. Leaves batches alone that have no room.
std::vector<uint32_t> shifted_positions(Session &session, const bonsai_batch &batch) {
  std::vector<uint32_t> positions(batch.positions, batch.positions + batch.n_tokens);
  for (uint32_t i = 0; i < batch.n_tokens; ++i) {
    const uint32_t column = ++positions[i] / session.config.block_size;
    const uint32_t *row = batch.block_table + uint64_t{batch.sequences[i]} * batch.blocks_per_sequence;
    if (column >= batch.blocks_per_sequence || row[column] >= session.config.n_blocks) {
      return {batch.positions, batch.positions + batch.n_tokens};
    }
  }
  const std::vector<std::byte> zeros(2 * session.layers * session.kv_row_bytes);
  for (uint32_t i = 0; i < batch.n_tokens; ++i) {
    const uint32_t *first = batch.block_table + uint64_t{batch.sequences[i]} * batch.blocks_per_sequence;
    cpu().kv_import(session.inner, first, 1, 1, zeros.data(), zeros.size(), nullptr);
  }
  return positions;
}

// Runs the tokens of a batch one by one, the last first: none sees what those before it store.
bonsai_status submit_blindly(Session &session, const bonsai_batch &batch, const bonsai_output *const *outputs,
                             uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  for (uint32_t i = batch.n_tokens; i-- > 0;) {
    bonsai_batch one = batch;
    one.n_tokens = 1;
    if (batch.tokens) one.tokens = batch.tokens + i;
    one.positions = batch.positions + i;
    one.sequences = batch.sequences + i;
    std::vector<bonsai_output> wanted;
    for (uint32_t j = 0; j < n_outputs; ++j) {
      if (outputs[j]->token == i) wanted.push_back(*outputs[j]);
    }
    std::vector<const bonsai_output *> pointers;
    for (bonsai_output &output : wanted) {
      output.token = 0;
      pointers.push_back(&output);
    }
    const bonsai_status status = cpu().forward_submit(session.inner, &one, pointers.data(),
                                                      static_cast<uint32_t>(pointers.size()), ticket, error);
    if (status != BONSAI_OK) return status;
    if (i > 0) cpu().forward_wait(session.inner, *ticket, error);
  }
  return BONSAI_OK;
}

// The tokens, where a fault chains them to something else.
std::vector<int32_t> tokens_by_fault(const Session &session, const bonsai_batch &batch) {
  std::vector<int32_t> tokens(batch.tokens, batch.tokens + batch.n_tokens);
  for (int32_t &token : tokens) {
    if (token >= 0) continue;
    const auto j = static_cast<size_t>(-1 - token);
    if (session.is("takes the last output for the one that is named"))
      token = BONSAI_TOKEN_FROM_OUTPUT(session.n_last_outputs - 1);
    const auto &selected = session.device->selected.empty() ? session.selected : session.device->selected;
    if (j < selected.size()) token = selected[j];
  }
  return tokens;
}

// The outputs, and behind them what each would select without its adjustments.
struct WithUnadjusted {
  WithUnadjusted(const bonsai_output *const *outputs, uint32_t n)
      : pointers(outputs, outputs + n), plain(n), selected(n, -1), logits(n) {
    for (uint32_t i = 0; i < n; ++i) {
      plain[i].struct_size = sizeof plain[i];
      plain[i].kind = BONSAI_OUTPUT_ARGMAX;
      plain[i].token = outputs[i]->token;
      plain[i].top_ids = &selected[i];
      plain[i].top_logits = &logits[i];
      pointers.push_back(&plain[i]);
    }
  }
  WithUnadjusted(const WithUnadjusted &) = delete;
  WithUnadjusted &operator=(const WithUnadjusted &) = delete;

  std::vector<const bonsai_output *> pointers;
  std::vector<bonsai_output> plain;
  std::vector<int32_t> selected;
  std::vector<float> logits;
};

// The block table with an idle block wherever a row has one that an earlier row has.
std::vector<uint32_t> unshared_table(const Session &session, const bonsai_batch &batch) {
  const uint32_t *end = batch.block_table + uint64_t{batch.n_sequences} * batch.blocks_per_sequence;
  std::vector<uint32_t> table(batch.block_table, end);
  std::set<uint32_t> taken;
  uint32_t idle = session.config.n_blocks;
  for (uint32_t &block : table) {
    if (block >= session.config.n_blocks || taken.insert(block).second) continue;
    do --idle;
    while (std::find(batch.block_table, end, idle) != end);
    block = idle;
  }
  return table;
}

}  // namespace

bonsai_status submit_faultily(Session &session, bonsai_batch batch, const bonsai_output *const *outputs,
                              uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  if (session.is("takes tokens and hidden states") && batch.tokens) batch.hidden = nullptr;
  std::vector<uint32_t> positions, table;
  if (session.is("gives a block to one row only")) {
    table = unshared_table(session, batch);
    batch.block_table = table.data();
  }
  if (session.is("attends to one position too many")) {
    positions = shifted_positions(session, batch);
    batch.positions = positions.data();
  }
  std::vector<int32_t> tokens;
  if (batch.tokens) {
    tokens = tokens_by_fault(session, batch);
    batch.tokens = tokens.data();
  }
  std::optional<WithUnadjusted> unadjusted;
  if (session.is("chains what nothing adjusted") && 2 * n_outputs <= session.config.max_outputs) {
    unadjusted.emplace(outputs, n_outputs);
    outputs = unadjusted->pointers.data();
    n_outputs *= 2;
  }
  if (session.is("counts positions to 1,024")) {
    positions.assign(batch.positions, batch.positions + batch.n_tokens);
    for (uint32_t &position : positions) position %= 1024;
    batch.positions = positions.data();
  }
  if (session.is("does not see its own batch")) {
    return submit_blindly(session, batch, outputs, n_outputs, ticket, error);
  }
  std::unique_ptr<OldValues> old;
  if (session.is("ignores rollback")) old = std::make_unique<OldValues>(session, batch);
  const bonsai_status status = cpu().forward_submit(session.inner, &batch, outputs, n_outputs, ticket, error);
  if (old && status == BONSAI_OK) old->restore();
  if (status == BONSAI_OK) session.n_last_outputs = n_outputs;
  if (status == BONSAI_OK && session.is("chains over a submit of nothing") && n_outputs > 0) {
    session.selected.assign(n_outputs, -1);
    for (uint32_t i = 0; i < n_outputs; ++i)
      if (outputs[i]->top_ids) session.selected[i] = *outputs[i]->top_ids;
  }
  if (status == BONSAI_OK && unadjusted) session.selected = unadjusted->selected;
  if (status == BONSAI_OK && session.is("chains whichever session was last")) {
    session.device->selected.assign(n_outputs, -1);
    for (uint32_t i = 0; i < n_outputs; ++i)
      if (outputs[i]->top_ids) session.device->selected[i] = *outputs[i]->top_ids;
  }
  return status;
}

bool is_readable(const Session &session, const bonsai_batch *batch, const uint64_t *ticket) {
  if (!batch || batch->struct_size < sizeof *batch || !batch->positions || !batch->sequences || !batch->block_table) {
    return false;
  }
  if (!ticket || batch->n_tokens > session.config.max_tokens) return false;
  for (uint32_t i = 0; i < batch->n_tokens; ++i) {
    if (batch->sequences[i] >= batch->n_sequences || batch->n_sequences > session.config.max_sequences) return false;
    if (batch->positions[i] / session.config.block_size >= batch->blocks_per_sequence) return false;
    if (slot_of(session, *batch, i).block >= session.config.n_blocks) return false;
  }
  return true;
}

}  // namespace bonsai::test
