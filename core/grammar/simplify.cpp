#include <algorithm>
#include <optional>

#include "core/base/utf8.h"
#include "core/grammar/nfa.h"

namespace bonsai::grammar {
namespace {

using Edge = Nfa::Edge;

// States that can be reached from `from` by edges that `passes` accepts.
template <class Passes>
std::vector<bool> reached(const Nfa &nfa, uint32_t from, Passes passes) {
  std::vector<bool> seen(nfa.states.size());
  std::vector<uint32_t> open = {from};
  seen[from] = true;
  while (!open.empty()) {
    const uint32_t state = open.back();
    open.pop_back();
    for (const Edge &edge : nfa.states[state]) {
      if (seen[edge.to] || !passes(edge)) continue;
      seen[edge.to] = true;
      open.push_back(edge.to);
    }
  }
  return seen;
}

// Which rules have a way from start to end of edges that pass, where a call passes if its rule has such a way. Each
// rule is looked at again when one that it calls has been found.
template <class Passes>
std::vector<bool> rules_with_a_way(const std::vector<Nfa> &nfas, Passes passes) {
  std::vector<std::vector<uint32_t>> callers(nfas.size());
  std::vector<uint32_t> open;
  for (uint32_t rule = 0; rule < nfas.size(); ++rule) {
    if (!nfas[rule].states.empty()) open.push_back(rule);
    for (const auto &edges : nfas[rule].states)
      for (const Edge &edge : edges)
        if (edge.kind == Edge::Kind::kCall) callers[edge.rule].push_back(rule);
  }
  for (auto &list : callers) list.erase(std::unique(list.begin(), list.end()), list.end());
  std::vector<bool> found(nfas.size());
  while (!open.empty()) {
    const uint32_t rule = open.back();
    open.pop_back();
    if (found[rule]) continue;
    const auto through = [&](const Edge &edge) {
      return edge.kind == Edge::Kind::kCall ? bool{found[edge.rule]} : passes(edge);
    };
    if (!reached(nfas[rule], Nfa::kStart, through)[Nfa::kEnd]) continue;
    found[rule] = true;
    open.insert(open.end(), callers[rule].begin(), callers[rule].end());
  }
  return found;
}

// Takes left recursion out of a set of automata, rule by rule. While a rule is at work, the edges that leave its start
// are kept explicit: no empty edges, so that each of its first calls stands in one place.
class LeftRecursion {
 public:
  explicit LeftRecursion(std::vector<Nfa> &nfas) : nfas_(nfas), first_calls_(nfas.size()) {
    for (uint32_t rule = 0; rule < nfas.size(); ++rule) {
      n_states_ += nfas[rule].states.size();
      if (!nfas[rule].states.empty()) find_first_calls(rule);
    }
  }

  // The rule at which it became too large, if one did.
  std::optional<uint32_t> remove() {
    const std::vector<uint32_t> recursive = recursive_rules();
    for (size_t i = 0; i < recursive.size(); ++i) {
      const uint32_t rule = recursive[i];
      make_start_explicit(rule);
      for (size_t j = 0; j < i; ++j) {
        // What the earlier rule brings in begins with later rules only, or with bytes: Paull's invariant.
        if (!replace_first_calls(rule, recursive[j])) return rule;
      }
      make_loop(rule);
    }
    return std::nullopt;
  }

 private:
  void find_first_calls(uint32_t rule) {
    const Nfa &nfa = nfas_[rule];
    const auto seen = reached(nfa, Nfa::kStart, [](const Edge &edge) { return edge.kind == Edge::Kind::kEmpty; });
    for (uint32_t state = 0; state < nfa.states.size(); ++state) {
      if (!seen[state]) continue;
      for (const Edge &edge : nfa.states[state])
        if (edge.kind == Edge::Kind::kCall) first_calls_[rule].push_back(edge.rule);
    }
  }

  // Those that are among the rules that they may call first.
  std::vector<uint32_t> recursive_rules() const {
    std::vector<uint32_t> recursive;
    for (uint32_t rule = 0; rule < nfas_.size(); ++rule) {
      std::vector<bool> seen(nfas_.size());
      std::vector<uint32_t> open = first_calls_[rule];
      while (!open.empty() && !seen[rule]) {
        const uint32_t callee = open.back();
        open.pop_back();
        if (seen[callee]) continue;
        seen[callee] = true;
        open.insert(open.end(), first_calls_[callee].begin(), first_calls_[callee].end());
      }
      if (seen[rule]) recursive.push_back(rule);
    }
    return recursive;
  }

  void make_start_explicit(uint32_t rule) {
    Nfa &nfa = nfas_[rule];
    const auto seen = reached(nfa, Nfa::kStart, [](const Edge &edge) { return edge.kind == Edge::Kind::kEmpty; });
    std::vector<Edge> explicit_edges;
    for (uint32_t state = 0; state < nfa.states.size(); ++state) {
      if (!seen[state]) continue;
      for (const Edge &edge : nfa.states[state])
        if (edge.kind != Edge::Kind::kEmpty) explicit_edges.push_back(edge);
    }
    nfa.states[Nfa::kStart] = std::move(explicit_edges);
  }

  std::vector<Edge> take_first_calls(uint32_t rule, uint32_t callee) {
    std::vector<Edge> &edges = nfas_[rule].states[Nfa::kStart];
    const auto is_other = [&](const Edge &edge) { return edge.kind != Edge::Kind::kCall || edge.rule != callee; };
    const auto at = std::stable_partition(edges.begin(), edges.end(), is_other);
    std::vector<Edge> taken(at, edges.end());
    edges.erase(at, edges.end());
    return taken;
  }

  // Puts the callee's automaton, whose start is explicit, in the place of each call of it that comes first.
  bool replace_first_calls(uint32_t rule, uint32_t callee) {
    for (const Edge &called : take_first_calls(rule, callee)) {
      Nfa &into = nfas_[rule];
      const Nfa &from = nfas_[callee];
      n_states_ += from.states.size();
      if (n_states_ > kMostNfaStates) return false;
      const auto offset = static_cast<uint32_t>(into.states.size());
      for (uint32_t state = 0; state < from.states.size(); ++state) {
        std::vector<Edge> edges = from.states[state];
        for (Edge &edge : edges) edge.to += offset;
        into.states.push_back(std::move(edges));
      }
      const std::vector<Edge> first = into.states[offset + Nfa::kStart];
      auto &start = into.states[Nfa::kStart];
      start.insert(start.end(), first.begin(), first.end());
      into.add_empty(offset + Nfa::kEnd, called.to);
    }
    return true;
  }

  // Where a rule would begin with itself: having read one, go on as if it had been that first part. The end gets a
  // state of its own in front, as no edge may leave the end.
  void make_loop(uint32_t rule) {
    const std::vector<Edge> own_calls = take_first_calls(rule, rule);
    if (own_calls.empty()) return;
    Nfa &nfa = nfas_[rule];
    const uint32_t whole = nfa.add_state();
    for (auto &edges : nfa.states)
      for (Edge &edge : edges)
        if (edge.to == Nfa::kEnd) edge.to = whole;
    nfa.add_empty(whole, Nfa::kEnd);
    for (const Edge &called : own_calls) nfa.add_empty(whole, called.to == Nfa::kEnd ? whole : called.to);
  }

  std::vector<Nfa> &nfas_;
  std::vector<std::vector<uint32_t>> first_calls_;
  size_t n_states_ = 0;
};

}  // namespace

Result<Simplified> simplify(std::vector<Nfa> nfas, const RuleSet &rules) {
  const std::vector<bool> can_end = rules_with_a_way(nfas, [](const Edge &) { return true; });
  for (uint32_t rule = 0; rule < nfas.size(); ++rule) {
    if (!nfas[rule].states.empty() && !can_end[rule])
      return fail("rule {} can never end: each of its alternatives needs a rule that can never end",
                  bonsai::quoted(rules.rules[rule].name));
  }
  std::vector<bool> may_be_empty =
      rules_with_a_way(nfas, [](const Edge &edge) { return edge.kind == Edge::Kind::kEmpty; });
  for (Nfa &nfa : nfas) {
    for (auto &edges : nfa.states) {
      for (size_t i = 0, n = edges.size(); i < n; ++i) {
        const Edge edge = edges[i];
        if (edge.kind == Edge::Kind::kCall && may_be_empty[edge.rule])
          edges.push_back({Edge::Kind::kEmpty, 0, 0, 0, edge.to});
      }
    }
  }
  // The start's own empty way to the end stays in the automaton; the deterministic one leaves it out.
  if (const auto rule = LeftRecursion(nfas).remove())
    return fail("grammar too large: taking the left recursion out of rule {} needs more than {} states",
                bonsai::quoted(rules.rules[*rule].name), kMostNfaStates);
  return Simplified{std::move(nfas), std::move(may_be_empty)};
}

}  // namespace bonsai::grammar
