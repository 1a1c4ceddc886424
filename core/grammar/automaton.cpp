#include "core/grammar/automaton.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/utf8.h"
#include "core/grammar/nfa.h"

namespace bonsai::grammar {
namespace {

using Edge = Nfa::Edge;
using Set = std::vector<uint32_t>;  // states of one Nfa, sorted

// States looked at in all sets together: a second or so.
constexpr size_t kMostSteps = size_t{1} << 24;

}  // namespace

// The subset construction (doi:10.1147/rd.32.0114), with a call as one more letter.
class Determiniser {
 public:
  Determiniser(const Simplified &simplified, Automaton &automaton)
      : nfas_(simplified.nfas), automaton_(automaton), starts_(nfas_.size(), Automaton::kDead) {
    find_classes();
    add_state();  // kDead
  }

  // The rule at which there were too many states, or the number of rules.
  size_t run() {
    for (size_t rule = 0; rule < nfas_.size(); ++rule) {
      if (nfas_[rule].states.empty()) continue;
      if (!determinise(nfas_[rule], starts_[rule])) return rule;
    }
    resolve_calls();
    remove_dead_ends();
    find_first_bytes();
    for (uint32_t state = 0; state < automaton_.states_.size(); ++state)
      automaton_.states_[state].bare_end = automaton_.states_[state].end && is_last(state);
    automaton_.n_steps_ = n_steps_ + automaton_.rows_.size();
    for (const Nfa &nfa : nfas_) automaton_.n_steps_ += nfa.states.size();
    return nfas_.size();
  }

  uint32_t start(size_t rule) const { return starts_[rule]; }

  // Nothing follows it.
  bool is_last(uint32_t state) const {
    const auto row = automaton_.rows_.begin() + static_cast<std::ptrdiff_t>(size_t{state} * automaton_.n_classes_);
    return automaton_.states_[state].n_calls == 0 &&
           std::all_of(row, row + automaton_.n_classes_, [](uint32_t to) { return to == Automaton::kDead; });
  }

 private:
  void find_classes() {
    std::array<bool, 257> cut{};
    for (const Nfa &nfa : nfas_)
      for (const auto &edges : nfa.states)
        for (const Edge &edge : edges)
          if (edge.kind == Edge::Kind::kBytes) cut[edge.first] = cut[edge.last + 1u] = true;
    uint32_t n = 0;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (byte > 0 && cut[byte]) ++n;
      automaton_.class_of_[byte] = static_cast<uint8_t>(n);
    }
    automaton_.n_classes_ = n + 1;
  }

  uint32_t add_state() {
    automaton_.states_.emplace_back();
    automaton_.rows_.resize(automaton_.rows_.size() + automaton_.n_classes_, Automaton::kDead);
    return static_cast<uint32_t>(automaton_.states_.size() - 1);
  }

  // Adds all that empty edges lead to, and keeps what has other edges, or is the end: sets that differ in nothing else
  // are one state.
  Set closure(const Nfa &nfa, Set from) {
    seen_.resize(std::max(seen_.size(), nfa.states.size()), false);
    Set all;
    for (const uint32_t state : from) {
      if (seen_[state]) continue;
      seen_[state] = true;
      all.push_back(state);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      for (const Edge &edge : nfa.states[all[i]]) {
        if (edge.kind != Edge::Kind::kEmpty || seen_[edge.to]) continue;
        seen_[edge.to] = true;
        all.push_back(edge.to);
      }
    }
    for (const uint32_t state : all) seen_[state] = false;
    n_steps_ += all.size() + from.size();
    std::erase_if(all, [&](uint32_t state) {
      const auto &edges = nfa.states[state];
      return state != Nfa::kEnd &&
             std::all_of(edges.begin(), edges.end(), [](const Edge &edge) { return edge.kind == Edge::Kind::kEmpty; });
    });
    std::sort(all.begin(), all.end());
    return all;
  }

  // The state for a set of one automaton: a new one unless the set was seen before.
  uint32_t state_of(Set set) {
    if (set.empty()) return Automaton::kDead;
    const auto [at, is_new] = numbers_.try_emplace(std::move(set), 0);
    if (is_new) {
      at->second = add_state();
      open_.push_back(&*at);
    }
    return at->second;
  }

  // The start is no end even if the rule may be empty, and so is kept apart from other states of the same set.
  bool determinise(const Nfa &nfa, uint32_t &start) {
    numbers_.clear();
    open_.clear();
    const Set first = closure(nfa, {Nfa::kStart});
    start = add_state();
    expand(nfa, first, start);
    for (size_t i = 0; i < open_.size(); ++i) {
      if (is_too_large()) return false;
      const auto &[set, state] = *open_[i];
      automaton_.states_[state].end = std::binary_search(set.begin(), set.end(), Nfa::kEnd);
      expand(nfa, set, state);
    }
    return !is_too_large();
  }

  bool is_too_large() const { return automaton_.states_.size() > Automaton::kMostStates || n_steps_ > kMostSteps; }

  void expand(const Nfa &nfa, const Set &set, uint32_t state) {
    by_class_.resize(automaton_.n_classes_);
    for (Set &targets : by_class_) targets.clear();
    std::map<uint32_t, Set> by_rule;
    for (const uint32_t member : set) {
      for (const Edge &edge : nfa.states[member]) {
        if (edge.kind == Edge::Kind::kCall) by_rule[edge.rule].push_back(edge.to);
        if (edge.kind != Edge::Kind::kBytes) continue;
        for (uint32_t c = automaton_.class_of_[edge.first]; c <= automaton_.class_of_[edge.last]; ++c)
          by_class_[c].push_back(edge.to);
      }
    }
    expand_bytes(nfa, state);
    automaton_.states_[state].first_call = static_cast<uint32_t>(automaton_.calls_.size());
    automaton_.states_[state].n_calls = static_cast<uint32_t>(by_rule.size());
    for (auto &[rule, to] : by_rule) {
      const uint32_t target = state_of(closure(nfa, std::move(to)));
      automaton_.calls_.push_back({rule, target, rule});  // the rule's start is put in when all are known
    }
  }

  void expand_bytes(const Nfa &nfa, uint32_t state) {
    uint32_t target = Automaton::kDead;
    for (uint32_t c = 0; c < automaton_.n_classes_; ++c) {
      if (c == 0 || by_class_[c] != by_class_[c - 1]) target = state_of(closure(nfa, by_class_[c]));
      automaton_.rows_[state * automaton_.n_classes_ + c] = target;
    }
  }

  void resolve_calls() {
    for (Automaton::Call &call : automaton_.calls_) call.start = starts_[call.start];
  }

  // By rule: the bytes that its own automaton begins with, and what the rules begin with that it calls first. Whenever
  // more is known of a rule, those that call it are told.
  void find_first_bytes() {
    automaton_.first_bytes_.resize(nfas_.size());
    std::vector<std::vector<uint32_t>> callers(nfas_.size());
    std::vector<uint32_t> open;
    for (uint32_t rule = 0; rule < nfas_.size(); ++rule) {
      if (starts_[rule] == Automaton::kDead) continue;
      for (uint32_t byte = 0; byte < 256; ++byte)
        automaton_.first_bytes_[rule][byte] =
            automaton_.next(starts_[rule], static_cast<uint8_t>(byte)) != Automaton::kDead;
      for (const Automaton::Call &call : automaton_.calls(starts_[rule])) callers[call.first].push_back(rule);
      open.push_back(rule);
    }
    while (!open.empty()) {
      const uint32_t rule = open.back();
      open.pop_back();
      for (const uint32_t caller : callers[rule]) {
        const std::bitset<256> first = automaton_.first_bytes_[caller] | automaton_.first_bytes_[rule];
        if (first == automaton_.first_bytes_[caller]) continue;
        automaton_.first_bytes_[caller] = first;
        open.push_back(caller);
      }
    }
  }

  // The states from which an end can be reached. As a rule's start is no end, it is one of them only if the rule reads
  // something: a call leads on if both its rule's start and the state behind it do.
  std::vector<bool> living() const {
    struct Way {
      uint32_t from, other;  // `other`: what has to live as well
    };
    const size_t n_states = automaton_.states_.size(), n_classes = automaton_.n_classes_;
    std::vector<std::vector<Way>> ways(n_states);  // by the state that they need
    std::vector<uint32_t> open;
    for (uint32_t state = 1; state < n_states; ++state) {
      for (size_t c = 0; c < n_classes; ++c) {
        const uint32_t to = automaton_.rows_[state * n_classes + c];
        if (to != Automaton::kDead && (ways[to].empty() || ways[to].back().from != state))
          ways[to].push_back({state, to});
      }
      for (const Automaton::Call &call : automaton_.calls(state)) {
        ways[call.to].push_back({state, call.start});
        ways[call.start].push_back({state, call.to});
      }
      if (automaton_.states_[state].end) open.push_back(state);
    }
    std::vector<bool> lives(n_states);
    for (const uint32_t state : open) lives[state] = true;
    while (!open.empty()) {
      const uint32_t state = open.back();
      open.pop_back();
      for (const auto &[from, other] : ways[state]) {
        if (lives[from] || !lives[other]) continue;
        lives[from] = true;
        open.push_back(from);
      }
    }
    return lives;
  }

  // Every set holds a state from which an end can be reached but for those that were copied and lost their way when
  // left recursion was removed; these become kDead here, and calls of rules that read nothing vanish.
  void remove_dead_ends() {
    const std::vector<bool> lives = living();
    for (uint32_t &to : automaton_.rows_)
      if (!lives[to]) to = Automaton::kDead;
    for (Automaton::State &state : automaton_.states_) {
      const auto first = automaton_.calls_.begin() + state.first_call;
      const auto last = first + state.n_calls;
      const auto kept = std::remove_if(
          first, last, [&](const Automaton::Call &call) { return !lives[call.to] || !lives[call.start]; });
      state.n_calls = static_cast<uint32_t>(kept - first);
    }
  }

  const std::vector<Nfa> &nfas_;
  Automaton &automaton_;
  std::vector<uint32_t> starts_;
  std::vector<bool> seen_;
  size_t n_steps_ = 0;
  std::vector<Set> by_class_;        // targets of the state at work; kept for its memory
  std::map<Set, uint32_t> numbers_;  // of the rule at work
  std::vector<const std::pair<const Set, uint32_t> *> open_;
};

Result<Automaton> Automaton::compile(const RuleSet &rules) {
  auto nfas = build_nfas(rules);
  if (!nfas) return tl::unexpected(nfas.error());
  const auto simplified = simplify(*std::move(nfas), rules);
  if (!simplified) return tl::unexpected(simplified.error());
  Automaton automaton;
  Determiniser determiniser(*simplified, automaton);
  const size_t failed = determiniser.run();
  if (failed < rules.rules.size())
    return fail("grammar too large: rule {} makes it need more than {} states; shorter repetitions need fewer",
                bonsai::quoted(rules.rules[failed].name), kMostStates);
  automaton.root_ = determiniser.start(rules.root);
  automaton.may_be_empty_ = simplified->may_be_empty[rules.root];
  automaton.states_[automaton.root_].bare_end |= automaton.may_be_empty_ && determiniser.is_last(automaton.root_);
  return automaton;
}

}  // namespace bonsai::grammar
