#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/template/ast.h"
#include "core/text/template/runtime.h"

namespace bonsai::jinja {

// The variables of a loop's turn, a macro's call or the whole template.
struct Scope {
  Scope *parent = nullptr;
  NamedValues variables;
  bool is_kept = false;  // a macro sees it, and may outlive the block
};

// Runs a template once.
class Evaluator final : public Runtime {
 public:
  Evaluator(const Limits &limits, std::time_t now) : Runtime(limits, now), out_(*this) {}
  ~Evaluator() override;

  // Before run().
  void set_variable(std::string_view name, Value value) { set(top_.variables, name, std::move(value)); }
  TracedText run(const Body &body);

  Value call(const Value &callee, CallArguments arguments) override;

 private:
  class Depth;
  class Block;
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  Flow run_body(const Body &body);
  Flow run_statement(const Statement &statement);
  Flow run_node(const Data &node);
  Flow run_node(const Print &node);
  Flow run_node(const If &node);
  Flow run_node(const For &node);
  Flow run_node(const Set &node);
  Flow run_node(const SetBlock &node);
  Flow run_node(const MacroDefinition &node);
  Flow run_node(const CallBlock &node);
  Flow run_node(const FilterBlock &node);
  Flow run_node(const With &node);
  Flow run_node(const Break &) { return Flow::kBreak; }
  Flow run_node(const Continue &) { return Flow::kContinue; }

  Value evaluate(const ExpressionPtr &expression);
  Value evaluate_node(const Literal &node) { return node.value; }
  Value evaluate_node(const Name &node);
  Value evaluate_node(const Attribute &node);
  Value evaluate_node(const Item &node);
  Value evaluate_node(const Slice &node);
  Value evaluate_node(const CallOf &node);
  Value evaluate_node(const Filter &node);
  Value evaluate_node(const Test &node);
  Value evaluate_node(const ListDisplay &node);
  Value evaluate_node(const DictDisplay &node);
  Value evaluate_node(const Unary &node);
  Value evaluate_node(const Arithmetic &node);
  Value evaluate_node(const Concatenation &node);
  Value evaluate_node(const Logical &node);
  Value evaluate_node(const Comparison &node);
  Value evaluate_node(const Conditional &node);
  Value evaluate_node(const Captured &) { return captured_; }

  bool is_true_of(const ExpressionPtr &condition) { return is_true(evaluate(condition)) && !failed(); }
  CallArguments evaluate(const Arguments &arguments);
  std::vector<Value> loop_items(const For &node);
  void assign(const Target &target, Value value);
  Value call_macro(const Callable &macro, CallArguments arguments);
  size_t place_of(const Macro &macro, std::string_view name);
  void bind_rest(const Macro &macro, CallArguments &arguments, Scope &scope);
  void bind(const Macro &macro, CallArguments arguments, Scope &scope);
  Value make_macro(const Macro &macro);
  // The text that a body prints, in a scope of its own.
  TracedText capture(const Body &body);
  Value filtered(const ExpressionPtr &filters, const Body &body);

  Scope top_;
  Scope *scope_ = &top_;
  std::vector<std::unique_ptr<Scope>> kept_;
  TextBuilder out_;
  Value captured_;
  uint32_t depth_ = 0;
};

}  // namespace bonsai::jinja
