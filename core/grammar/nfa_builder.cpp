// Expressions to nondeterministic automata (Thompson's construction, doi:10.1145/363347.363387).
#include <algorithm>
#include <map>
#include <tuple>

#include "core/base/utf8.h"
#include "core/grammar/nfa.h"
#include "core/grammar/utf8_ranges.h"

namespace bonsai::grammar {
namespace {

using Kind = Expression::Kind;

// A rule up to this size is copied to where it is used.
constexpr size_t kMostInlinedSize = 64;
// How deep expressions may lie in one another once rules have been copied into them.
constexpr uint32_t kMostDepth = 400;
constexpr size_t kMostBuilderSteps = 8 * kMostNfaStates;

// What decides whether a rule is copied.
struct Measure {
  size_t size = 0;         // roughly its states
  uint32_t depth = 0;      // of its tree, copied rules included
  uint32_t n_uses = 0;     // by rules that the root needs
  bool recursive = false;  // it can come back to itself
  bool inlined = false;
};

// Visits rules in depth-first order from the root: callees come first, and Tarjan's algorithm finds those that recur
// (doi:10.1137/0201010). The walk keeps its own stack, as chains of rules may be long.
class RuleOrder {
 public:
  explicit RuleOrder(const RuleSet &rules) : rules_(rules), nodes_(rules.rules.size()) { visit(rules.root); }

  const std::vector<uint32_t> &callees_first() const { return order_; }
  bool is_recursive(uint32_t rule) const { return nodes_[rule].recursive; }
  uint32_t n_uses(uint32_t rule) const { return nodes_[rule].n_uses; }

 private:
  struct Node {
    uint32_t number = 0, lowest = 0;  // 0: not visited yet
    bool open = false, recursive = false;
    uint32_t n_uses = 0;
    std::vector<uint32_t> callees;
    size_t next = 0;
  };

  void collect(const Expression &expression, std::vector<uint32_t> &callees) {
    if (expression.kind == Kind::kRule) callees.push_back(expression.rule);
    if (expression.kind == Kind::kGraph) {
      for (const Expression::Edge &edge : expression.edges) collect(expression.parts[edge.part], callees);
      return;
    }
    for (const Expression &part : expression.parts) collect(part, callees);
  }

  void enter(uint32_t rule) {
    Node &node = nodes_[rule];
    node.number = node.lowest = ++n_visited_;
    node.open = true;
    open_.push_back(rule);
    path_.push_back(rule);
    collect(rules_.rules[rule].body, node.callees);
    for (const uint32_t callee : node.callees) {
      ++nodes_[callee].n_uses;
      if (callee == rule) node.recursive = true;
    }
  }

  void leave(uint32_t rule) {
    Node &node = nodes_[rule];
    path_.pop_back();
    order_.push_back(rule);
    if (!path_.empty()) nodes_[path_.back()].lowest = std::min(nodes_[path_.back()].lowest, node.lowest);
    if (node.lowest != node.number) return;
    const bool alone = open_.back() == rule;
    for (uint32_t member = rule + 1; member != rule;) {
      member = open_.back();
      open_.pop_back();
      nodes_[member].open = false;
      if (!alone) nodes_[member].recursive = true;
    }
  }

  void visit(uint32_t root) {
    for (enter(root); !path_.empty();) {
      const uint32_t rule = path_.back();
      Node &node = nodes_[rule];
      if (node.next == node.callees.size()) {
        leave(rule);
        continue;
      }
      const uint32_t callee = node.callees[node.next++];
      if (nodes_[callee].number == 0)
        enter(callee);
      else if (nodes_[callee].open)
        node.lowest = std::min(node.lowest, nodes_[callee].number);
    }
  }

  const RuleSet &rules_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> open_, path_, order_;
  uint32_t n_visited_ = 0;
};

class Builder {
 public:
  explicit Builder(const RuleSet &rules) : rules_(rules), order_(rules), measures_(rules.rules.size()) {
    for (const uint32_t rule : order_.callees_first()) measure(rule);
  }

  Result<std::vector<Nfa>> build() {
    std::vector<Nfa> nfas(rules_.rules.size());
    for (const uint32_t rule : order_.callees_first()) {
      if (measures_[rule].inlined && rule != rules_.root) continue;
      nfa_ = &nfas[rule];
      nfa_->states.resize(2);
      nfa_->add_empty(add(rules_.rules[rule].body, fresh_after(Nfa::kStart)), Nfa::kEnd);
      if (full_)
        return fail("grammar too large: rule {} makes it need more than {} states; shorter repetitions need fewer",
                    bonsai::quoted(rules_.rules[rule].name), kMostNfaStates);
    }
    return nfas;
  }

 private:
  void measure(uint32_t rule) {
    Measure &measure = measures_[rule];
    measure.size = size_of(rules_.rules[rule].body);
    measure.depth = depth_of(rules_.rules[rule].body);
    measure.recursive = order_.is_recursive(rule);
    measure.n_uses = order_.n_uses(rule);
    measure.inlined = !measure.recursive && !rules_.rules[rule].shared && measure.depth < kMostDepth &&
                      (measure.n_uses == 1 || measure.size <= kMostInlinedSize);
  }

  size_t size_of(const Expression &expression) const {
    if (expression.kind == Kind::kLiteral) return expression.bytes.size();
    if (expression.kind == Kind::kRule)
      return measures_[expression.rule].inlined ? measures_[expression.rule].size : size_t{1};
    size_t size = 1;
    if (expression.kind == Kind::kGraph) {
      for (const Expression::Edge &edge : expression.edges) size += 1 + size_of(expression.parts[edge.part]);
      return std::min(size, kMostNfaStates);
    }
    for (const Expression &part : expression.parts) size += size_of(part);
    if (expression.kind == Kind::kRepeat && expression.most > 1) {
      const size_t times = expression.most == Expression::kUnbounded ? expression.least + 1 : expression.most;
      size *= times;
    }
    return std::min(size, kMostNfaStates);
  }

  uint32_t depth_of(const Expression &expression) const {
    if (expression.kind == Kind::kRule)
      return measures_[expression.rule].inlined ? measures_[expression.rule].depth + 1 : 1;
    uint32_t depth = 0;
    for (const Expression &part : expression.parts) depth = std::max(depth, depth_of(part));
    return depth + 1;
  }

  // The functions below add what reads an expression behind state `from`, and return the state where it ends. They add
  // no edge into `from`.
  uint32_t add(const Expression &expression, uint32_t from) {
    count_step();
    if (full_) return from;
    switch (expression.kind) {
      case Kind::kLiteral:
        return add_literal(expression.bytes, from);
      case Kind::kClass:
        return add_class(expression.ranges, from);
      case Kind::kRule:
        return add_rule(expression.rule, from);
      case Kind::kSequence:
        for (const Expression &part : expression.parts) from = add(part, from);
        return from;
      case Kind::kChoice:
        return add_choice(expression.parts, from);
      case Kind::kRepeat:
        return add_repeat(expression, from);
      case Kind::kByte:
        return add_byte(expression, from, fresh());
      case Kind::kGraph:
        return add_graph(expression, from);
    }
    return from;
  }

  // What adds no state takes time, too: nothing, repeated again and again.
  void count_step() { full_ |= ++n_steps_ >= kMostBuilderSteps; }

  uint32_t fresh() {
    full_ |= ++n_states_ >= kMostNfaStates;
    return nfa_->add_state();
  }

  uint32_t fresh_after(uint32_t from) {
    const uint32_t state = fresh();
    nfa_->add_empty(from, state);
    return state;
  }

  void add_bytes(uint32_t from, ByteSequence::Range range, uint32_t to) {
    count_step();
    nfa_->states[from].push_back({Nfa::Edge::Kind::kBytes, range.first, range.last, 0, to});
  }

  uint32_t add_literal(const std::string &bytes, uint32_t from) {
    for (const char c : bytes) {
      if (full_) return from;
      const uint32_t to = fresh();
      add_bytes(from, {static_cast<uint8_t>(c), static_cast<uint8_t>(c)}, to);
      from = to;
    }
    return from;
  }

  // Characters of several bytes share the states of their last ones.
  uint32_t add_class(const std::vector<CodePoints> &ranges, uint32_t from) {
    const uint32_t end = fresh();
    std::vector<ByteSequence> sequences;
    for (const CodePoints range : ranges) append_utf8_sequences(range, sequences);
    std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t> before;  // first, last, state behind: state in front
    for (const ByteSequence &sequence : sequences) {
      uint32_t to = end;
      for (uint32_t i = sequence.length - 1; i > 0; --i) {
        const auto [first, last] = sequence.ranges[i];
        const auto [at, is_new] = before.try_emplace({first, last, to}, 0);
        if (is_new) {
          if (full_) return end;
          at->second = fresh();
          add_bytes(at->second, {first, last}, to);
        }
        to = at->second;
      }
      add_bytes(from, sequence.ranges[0], to);
    }
    return end;
  }

  uint32_t add_rule(uint32_t rule, uint32_t from) {
    if (measures_[rule].inlined) return add(rules_.rules[rule].body, from);
    const uint32_t end = fresh();
    nfa_->states[from].push_back({Nfa::Edge::Kind::kCall, 0, 0, rule, end});
    return end;
  }

  uint32_t add_choice(const std::vector<Expression> &parts, uint32_t from) {
    const uint32_t end = fresh();
    for (const Expression &part : parts) nfa_->add_empty(add(part, from), end);
    return end;
  }

  uint32_t add_repeat(const Expression &repeat, uint32_t from) {
    const Expression &part = repeat.parts.front();
    for (uint32_t i = 0; i < repeat.least && !full_; ++i) from = add(part, from);
    if (repeat.most == Expression::kUnbounded) {
      const uint32_t loop = fresh_after(from);
      nfa_->add_empty(add(part, fresh_after(loop)), loop);
      return fresh_after(loop);
    }
    const uint32_t end = fresh();
    for (uint32_t i = repeat.least; i < repeat.most && !full_; ++i) {
      nfa_->add_empty(from, end);
      from = add(part, from);
    }
    nfa_->add_empty(from, end);
    return end;
  }

  uint32_t add_byte(const Expression &range, uint32_t from, uint32_t to) {
    add_bytes(from, {static_cast<uint8_t>(range.bytes[0]), static_cast<uint8_t>(range.bytes[1])}, to);
    return to;
  }

  uint32_t add_graph(const Expression &graph, uint32_t from) {
    std::vector<uint32_t> states = {fresh_after(from)};  // by node
    const auto state_of = [&](uint32_t node) {
      while (states.size() <= node && !full_) states.push_back(fresh());
      return node < states.size() ? states[node] : states.front();
    };
    for (const Expression::Edge &edge : graph.edges) {
      if (full_) return from;
      const uint32_t begin = state_of(edge.from), end = state_of(edge.to);
      const Expression &part = graph.parts[edge.part];
      if (part.kind == Kind::kByte)
        add_byte(part, begin, end);
      else
        nfa_->add_empty(add(part, begin), end);
    }
    const uint32_t end = fresh();
    for (const uint32_t node : graph.ends) nfa_->add_empty(state_of(node), end);
    return end;
  }

  const RuleSet &rules_;
  RuleOrder order_;
  std::vector<Measure> measures_;
  Nfa *nfa_ = nullptr;
  size_t n_states_ = 0, n_steps_ = 0;
  bool full_ = false;
};

}  // namespace

Result<std::vector<Nfa>> build_nfas(const RuleSet &rules) { return Builder(rules).build(); }

}  // namespace bonsai::grammar
