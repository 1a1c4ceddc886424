#include "core/grammar/plain_run.h"

#include "core/grammar/vocabulary.h"

namespace bonsai::grammar {
namespace {

struct ByteRange {
  uint32_t first, last;
};
constexpr ByteRange kContinuation = {0x80, 0xBF};

// First bytes of characters of several bytes, with what may follow as the second (Unicode 15, table 3-7).
struct Lead {
  ByteRange first, second;
  uint32_t n_more;  // bytes after the second
};
constexpr Lead kLeads[] = {
    {{0xC2, 0xDF}, kContinuation, 0}, {{0xE0, 0xE0}, {0xA0, 0xBF}, 1},  {{0xE1, 0xEC}, kContinuation, 1},
    {{0xED, 0xED}, {0x80, 0x9F}, 1},  {{0xEE, 0xEF}, kContinuation, 1}, {{0xF0, 0xF0}, {0x90, 0xBF}, 2},
    {{0xF1, 0xF3}, kContinuation, 2}, {{0xF4, 0xF4}, {0x80, 0x8F}, 2},
};

// Whether every byte of `range` and then `n_more` continuations lead from `state` to `target`.
bool all_lead_to(const Automaton &automaton, uint32_t state, ByteRange range, uint32_t n_more, uint32_t target) {
  uint32_t known = Automaton::kDead;  // the byte before led there, and that was good
  for (uint32_t byte = range.first; byte <= range.last; ++byte) {
    const uint32_t next = automaton.next(state, static_cast<uint8_t>(byte));
    if (next == known && next != Automaton::kDead) continue;
    if (next == Automaton::kDead) return false;
    if (n_more == 0 ? next != target : !all_lead_to(automaton, next, kContinuation, n_more - 1, target)) return false;
    known = next;
  }
  return true;
}

// The state behind one character of plain text, if it is the same for all of them; else kDead.
uint32_t behind_plain_text(const Automaton &automaton, uint32_t state) {
  const uint32_t target = automaton.next(state, 'a');
  if (target == Automaton::kDead) return target;
  for (uint32_t byte = 0; byte < 0x80; ++byte)
    if (is_plain_text(byte) && automaton.next(state, static_cast<uint8_t>(byte)) != target) return Automaton::kDead;
  for (const Lead &lead : kLeads) {
    uint32_t known = Automaton::kDead;
    for (uint32_t byte = lead.first.first; byte <= lead.first.last; ++byte) {
      const uint32_t next = automaton.next(state, static_cast<uint8_t>(byte));
      if (next == Automaton::kDead) return next;
      if (next != known && !all_lead_to(automaton, next, lead.second, lead.n_more, target)) return Automaton::kDead;
      known = next;
    }
  }
  return target;
}

// Whether plain text can be read from a state in no other way than by its own bytes.
bool has_no_other_way(const Automaton &automaton, uint32_t state) {
  if (automaton.is_end(state)) return false;
  for (const Automaton::Call &call : automaton.calls(state))
    for (uint32_t byte = 0; byte < 256; ++byte)
      if (is_plain_text(byte) && automaton.may_begin(call, static_cast<uint8_t>(byte))) return false;
  return true;
}

bool reads_no_plain_text(const Automaton &automaton, uint32_t state) {
  for (uint32_t byte = 0; byte < 256; ++byte)
    if (is_plain_text(byte) && automaton.next(state, static_cast<uint8_t>(byte)) != Automaton::kDead) return false;
  return true;
}

}  // namespace

PlainRun plain_run(const Automaton &automaton, uint32_t state, uint32_t most) {
  bool one_way = true;
  for (uint32_t n = 0; n < most; ++n) {
    one_way = one_way && has_no_other_way(automaton, state);
    const uint32_t next = behind_plain_text(automaton, state);
    if (next == Automaton::kDead) return {n, one_way && reads_no_plain_text(automaton, state)};
    if (next == state) return {most, false};
    state = next;
  }
  return {most, false};
}

}  // namespace bonsai::grammar
