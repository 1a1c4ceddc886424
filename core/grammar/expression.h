// What both languages of grammars become: rules over characters, as trees.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace bonsai::grammar {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

struct CodePoints {
  char32_t first, last;  // both included
  bool operator==(const CodePoints &) const = default;
};

struct Expression {
  enum class Kind : uint8_t {
    kLiteral,   // `bytes`
    kClass,     // one character of `ranges`
    kRule,      // what rule number `rule` matches
    kSequence,  // `parts` one after the other; none: the empty text
    kChoice,    // one of `parts`
    kRepeat,    // parts[0], `least` to `most` times
    kByte,      // one byte from bytes[0] to bytes[1]
    kGraph,     // what is read along the edges of a way from node 0 to one of `ends`
  };
  struct Edge {
    uint32_t from, to;  // nodes
    uint32_t part;      // number of what is read
  };
  static constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

  Kind kind = Kind::kSequence;
  std::string bytes;
  std::vector<CodePoints> ranges;
  uint32_t rule = 0;
  uint32_t least = 0, most = 0;
  std::vector<Expression> parts;
  std::vector<Edge> edges;     // kGraph
  std::vector<uint32_t> ends;  // kGraph: nodes
};
inline constexpr uint32_t kUnbounded = Expression::kUnbounded;

struct Rule {
  std::string name;
  Expression body;
  bool shared = false;  // stays a rule of its own wherever it is used, so that its states are the same everywhere
};

struct RuleSet {
  std::vector<Rule> rules;
  uint32_t root = 0;
};

// Puts rules behind others, and gives the number that their root has there.
uint32_t append(RuleSet rules, RuleSet &to);

inline Expression literal(std::string bytes) {
  Expression made;
  made.kind = Expression::Kind::kLiteral;
  made.bytes = std::move(bytes);
  return made;
}

inline Expression byte_between(uint8_t first, uint8_t last) {
  Expression made;
  made.kind = Expression::Kind::kByte;
  made.bytes = {static_cast<char>(first), static_cast<char>(last)};
  return made;
}

// Sorts and joins the ranges, and leaves surrogates out. Preconditions: first <= last <= kLastCodePoint in each.
Expression char_class(std::vector<CodePoints> ranges);
// Every character that is in none of the ranges.
Expression char_class_except(std::vector<CodePoints> ranges);

inline Expression call(uint32_t rule) {
  Expression made;
  made.kind = Expression::Kind::kRule;
  made.rule = rule;
  return made;
}

inline Expression group_of(Expression::Kind kind, std::vector<Expression> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  Expression made;
  made.kind = kind;
  made.parts = std::move(parts);
  return made;
}
inline Expression sequence(std::vector<Expression> parts) {
  return group_of(Expression::Kind::kSequence, std::move(parts));
}
inline Expression choice(std::vector<Expression> parts) {
  return group_of(Expression::Kind::kChoice, std::move(parts));
}

inline Expression repeat(Expression part, uint32_t least, uint32_t most) {
  Expression made;
  made.kind = Expression::Kind::kRepeat;
  made.least = least;
  made.most = most;
  made.parts.push_back(std::move(part));
  return made;
}
inline Expression optional(Expression part) { return repeat(std::move(part), 0, 1); }

// Puts a kGraph together; node 0 is there from the beginning.
class GraphMaker {
 public:
  GraphMaker() { graph_.kind = Expression::Kind::kGraph; }
  uint32_t add_node() { return n_nodes_++; }
  uint32_t add_part(Expression part) {
    graph_.parts.push_back(std::move(part));
    return static_cast<uint32_t>(graph_.parts.size() - 1);
  }
  void add_edge(uint32_t from, uint32_t to, uint32_t part) { graph_.edges.push_back({from, to, part}); }
  void add_end(uint32_t node) { graph_.ends.push_back(node); }
  Expression take() { return std::move(graph_); }

 private:
  Expression graph_;
  uint32_t n_nodes_ = 1;
};

}  // namespace bonsai::grammar
