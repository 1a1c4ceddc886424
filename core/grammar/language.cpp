#include "core/grammar/language.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/grammar/automaton.h"
#include "core/grammar/reach.h"

namespace bonsai::grammar {
namespace {

using State = Language::State;
using Step = Language::Step;

constexpr uint32_t kNowhere = ~0u;

tl::unexpected<Error> too_large() { return fail("it needs more than {} states", Language::kMostStates); }
tl::unexpected<Error> too_much_work(const Effort &effort) {
  return fail("with what comes before it in the schema it takes more than {} steps", effort.most());
}

// Appends a step, as a part of the last one where they meet.
void append(std::vector<Step> &steps, Step step) {
  if (!steps.empty() && steps.back().to == step.to && steps.back().last + 1 == step.first)
    steps.back().last = step.last;
  else
    steps.push_back(step);
}

// Numbers for states as they are come across.
template <class Key>
class Numbers {
 public:
  uint32_t operator()(const Key &key) {
    const auto [at, is_new] = numbers_.try_emplace(key, static_cast<uint32_t>(keys_.size()));
    if (is_new) keys_.push_back(key);
    return at->second;
  }
  size_t size() const { return keys_.size(); }
  Key operator[](size_t number) const { return keys_[number]; }

 private:
  std::unordered_map<Key, uint32_t> numbers_;
  std::vector<Key> keys_;
};

// Which states lead to an end.
std::vector<bool> living(const std::vector<State> &states) {
  std::vector<std::vector<uint32_t>> before(states.size());
  std::vector<uint32_t> open;
  for (uint32_t state = 0; state < states.size(); ++state) {
    for (const Step &step : states[state].steps) before[step.to].push_back(state);
    if (states[state].end) open.push_back(state);
  }
  return reached(before, std::move(open));
}

// Pairs of states of two automata, packed; kNowhere: the second has read something else.
constexpr uint64_t pair_of(uint32_t a, uint32_t b) { return uint64_t{a} << 32 | b; }

// The steps of a pair: where `b` has none, it is nowhere, and if `b` has to follow there is no step.
template <class NumberOf>
std::vector<Step> steps_of_pair(const State &a, const State *b, bool b_has_to_follow, NumberOf &number_of) {
  std::vector<Step> steps;
  for (const Step &step : a.steps) {
    uint32_t next = step.first;  // bytes in front of it are done
    const auto add = [&](uint32_t last, uint32_t b_to) {
      if (next > last) return;
      if (b_to != kNowhere || !b_has_to_follow)
        append(steps, {static_cast<uint8_t>(next), static_cast<uint8_t>(last), number_of(pair_of(step.to, b_to))});
      next = last + 1;
    };
    if (b != nullptr) {
      for (const Step &other : b->steps) {
        if (other.last < next || other.first > step.last) continue;
        if (other.first > next) add(other.first - 1u, kNowhere);
        add(std::min(other.last, step.last), other.to);
      }
    }
    add(step.last, kNowhere);
  }
  return steps;
}

}  // namespace

Language::Language(std::vector<State> states) {
  const std::vector<bool> lives = living(states);
  std::vector<uint32_t> numbers(states.size(), kNowhere);
  uint32_t n_living = 0;
  for (uint32_t state = 0; state < states.size(); ++state)
    if (lives[state] || state == kStart) numbers[state] = n_living++;
  for (uint32_t state = 0; state < states.size(); ++state) {
    if (numbers[state] == kNowhere) continue;
    State &made = states_.emplace_back();
    made.end = states[state].end;
    for (const Step &step : states[state].steps)
      if (lives[step.to]) made.steps.push_back({step.first, step.last, numbers[step.to]});
  }
}

Result<Language> Language::of(const Expression &expression, Effort &effort) {
  const auto automaton = Automaton::compile({{{"text", expression, false}}, 0});
  if (!automaton) return too_large();
  if (!effort.spend(automaton->n_steps())) return too_much_work(effort);
  Numbers<uint32_t> number_of;
  number_of(automaton->root());
  std::vector<State> states;
  for (size_t i = 0; i < number_of.size(); ++i) {
    State &made = states.emplace_back();
    made.end = i == kStart ? automaton->may_be_empty() : automaton->is_end(number_of[i]);
    uint32_t before = Automaton::kDead;  // what the byte in front leads to: most often the same
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t next = automaton->next(number_of[i], static_cast<uint8_t>(byte));
      if (next != Automaton::kDead) {
        const uint32_t to = next == before ? made.steps.back().to : number_of(next);
        append(made.steps, {static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to});
      }
      before = next;
    }
    if (!effort.spend(1 + made.steps.size())) return too_much_work(effort);
  }
  return Language(std::move(states));
}

Result<Language> Language::product(const Language &a, const Language &b, bool in_b, Effort &effort) {
  Numbers<uint64_t> number_of;
  number_of(pair_of(kStart, kStart));
  std::vector<State> states;
  for (size_t i = 0; i < number_of.size(); ++i) {
    if (number_of.size() > kMostStates) return too_large();
    const State &left = a.states_[number_of[i] >> 32];
    const auto right_number = static_cast<uint32_t>(number_of[i]);
    const State *right = right_number == kNowhere ? nullptr : &b.states_[right_number];
    State &made = states.emplace_back();
    made.end = left.end && (right != nullptr && right->end) == in_b;
    made.steps = steps_of_pair(left, right, in_b, number_of);
    if (!effort.spend(1 + left.steps.size() + (right == nullptr ? 0 : right->steps.size()) + made.steps.size()))
      return too_much_work(effort);
  }
  return Language(std::move(states));
}

Result<Language> Language::both(const Language &a, const Language &b, Effort &effort) {
  return product(a, b, true, effort);
}
Result<Language> Language::difference(const Language &a, const Language &b, Effort &effort) {
  return product(a, b, false, effort);
}

Result<Language> Language::minimal(Effort &effort) const {
  std::vector<uint32_t> blocks(states_.size());  // by state
  for (uint32_t state = 0; state < states_.size(); ++state) blocks[state] = states_[state].end;
  const auto steps_between_blocks = [&](const State &state) {
    std::vector<Step> steps;
    for (const Step &step : state.steps) append(steps, {step.first, step.last, blocks[step.to]});
    return steps;
  };
  const auto letters = [](const std::vector<Step> &steps, uint32_t block) {
    std::vector<uint32_t> made = {block};
    for (const Step &step : steps) {
      made.push_back(uint32_t{step.first} << 8 | step.last);
      made.push_back(step.to);
    }
    return made;
  };
  for (size_t n_blocks = 0;;) {
    std::map<std::vector<uint32_t>, uint32_t> numbers;
    std::vector<uint32_t> finer(states_.size());
    for (uint32_t state = 0; state < states_.size(); ++state) {
      if (!effort.spend(1 + states_[state].steps.size())) return too_much_work(effort);
      auto key = letters(steps_between_blocks(states_[state]), blocks[state]);
      finer[state] = numbers.try_emplace(std::move(key), static_cast<uint32_t>(numbers.size())).first->second;
    }
    blocks = std::move(finer);
    if (numbers.size() == n_blocks) break;
    n_blocks = numbers.size();
  }
  // Blocks are numbered as their first states are, so that the start's comes first.
  std::vector<State> made;
  for (uint32_t state = 0; state < states_.size(); ++state)
    if (blocks[state] == made.size()) made.push_back({steps_between_blocks(states_[state]), states_[state].end});
  return Language(std::move(made));
}

bool Language::contains(std::string_view text) const {
  uint32_t state = kStart;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    const auto &steps = states_[state].steps;
    const auto at = std::find_if(steps.begin(), steps.end(),
                                 [&](const Step &step) { return step.first <= byte && byte <= step.last; });
    if (at == steps.end()) return false;
    state = at->to;
  }
  return states_[state].end;
}

Result<Expression> Language::expression(Effort &effort) const {
  if (!effort.keep(states_.size()))
    return fail("with what comes before it in the schema it needs more than {} states", kMostNfaStates);
  GraphMaker graph;
  for (size_t i = 1; i < states_.size(); ++i) graph.add_node();
  std::map<std::pair<uint8_t, uint8_t>, uint32_t> parts;  // by first and last byte
  for (uint32_t state = 0; state < states_.size(); ++state) {
    if (states_[state].end) graph.add_end(state);
    for (const Step &step : states_[state].steps) {
      const auto [at, is_new] = parts.try_emplace({step.first, step.last}, 0);
      if (is_new) at->second = graph.add_part(byte_between(step.first, step.last));
      graph.add_edge(state, step.to, at->second);
    }
  }
  return graph.take();
}

}  // namespace bonsai::grammar
