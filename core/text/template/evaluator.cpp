#include "core/text/template/evaluator.h"

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "core/text/template/builtins.h"
#include "core/text/template/operators.h"
#include "core/text/template/print.h"

namespace bonsai::jinja {

// One level deeper for as long as it lives: each is a few frames of the machine's stack.
class Evaluator::Depth {
 public:
  explicit Depth(Evaluator &evaluator) : evaluator_(evaluator) {
    if (++evaluator_.depth_ > evaluator_.limits().depth)
      evaluator_.fail("calls and expressions are nested deeper than {}", evaluator_.limits().depth);
  }
  ~Depth() { --evaluator_.depth_; }
  Depth(const Depth &) = delete;
  Depth &operator=(const Depth &) = delete;

 private:
  Evaluator &evaluator_;
};

// A new scope for as long as it lives, or longer if a macro was defined in it.
class Evaluator::Block {
 public:
  explicit Block(Evaluator &evaluator, Scope *parent = nullptr)
      : evaluator_(evaluator), outer_(evaluator.scope_), scope_(std::make_unique<Scope>()) {
    scope_->parent = parent == nullptr ? outer_ : parent;
    evaluator_.scope_ = scope_.get();
  }
  ~Block() {
    evaluator_.scope_ = outer_;
    if (scope_->is_kept) evaluator_.kept_.push_back(std::move(scope_));
  }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

  Scope &scope() { return *scope_; }

 private:
  Evaluator &evaluator_;
  Scope *outer_;
  std::unique_ptr<Scope> scope_;
};

Evaluator::~Evaluator() = default;

TracedText Evaluator::run(const Body &body) {
  run_body(body);
  return out_.take();
}

Evaluator::Flow Evaluator::run_body(const Body &body) {
  for (const Statement &statement : body) {
    const Flow flow = run_statement(statement);
    if (flow != Flow::kNext || failed()) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_statement(const Statement &statement) {
  const Depth depth(*this);
  at_line(statement.line);
  if (!spend(1)) return Flow::kNext;
  return std::visit([this](const auto &node) { return run_node(node); }, statement.node);
}

Evaluator::Flow Evaluator::run_node(const Data &node) {
  out_.append(node.text);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_node(const Print &node) {
  const Value value = evaluate(node.value);
  if (const TracedText *text = value.text()) {
    out_.append(*text);
  } else {
    out_.append(to_text(*this, value));
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_node(const If &node) {
  for (const auto &[condition, body] : node.branches) {
    if (is_true_of(condition)) return run_body(body);
    if (failed()) return Flow::kNext;
  }
  return run_body(node.otherwise);
}

// What a loop walks over. A condition sees the loop's variables, but not `loop`.
std::vector<Value> Evaluator::loop_items(const For &node) {
  std::vector<Value> items = items_of(*this, evaluate(node.iterable));
  if (node.condition == nullptr) return items;
  std::vector<Value> chosen;
  for (Value &item : items) {
    const Block block(*this);
    assign(node.target, item);
    if (is_true_of(node.condition)) chosen.push_back(std::move(item));
    if (failed()) return {};
  }
  return chosen;
}

// `else` is for loops of which no turn reached the end of the body: empty ones, or those that break or continue always.
Evaluator::Flow Evaluator::run_node(const For &node) {
  const std::vector<Value> items = loop_items(node);
  const auto told = std::make_shared<Value>();
  bool reached_end = false;
  for (size_t i = 0; i < items.size() && spend(2); ++i) {
    Block turn(*this);
    assign(node.target, items[i]);
    Loop loop{.index0 = i, .length = items.size(), .previous = {}, .next = {}, .depth = 0, .told = told};
    if (i > 0) loop.previous = items[i - 1];
    if (i + 1 < items.size()) loop.next = items[i + 1];
    loop.depth = 1 + std::max(extent_of(loop.previous).depth, extent_of(loop.next).depth);
    set(turn.scope().variables, "loop", std::make_shared<const Loop>(std::move(loop)));
    const Flow flow = run_body(node.body);
    if (flow == Flow::kBreak) break;
    reached_end |= flow == Flow::kNext;
  }
  if (reached_end || failed()) return Flow::kNext;
  const Block block(*this);
  return run_body(node.otherwise);
}

Evaluator::Flow Evaluator::run_node(const Set &node) {
  assign(node.target, evaluate(node.value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_node(const SetBlock &node) {
  assign(node.target, filtered(node.value, node.body));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_node(const FilterBlock &node) {
  const Value text = filtered(node.value, node.body);
  out_.append(to_text(*this, text));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_node(const With &node) {
  std::vector<Value> values;
  for (const auto &[target, value] : node.variables) values.push_back(evaluate(value));
  const Block block(*this);
  for (size_t i = 0; i < values.size(); ++i) assign(node.variables[i].first, std::move(values[i]));
  return run_body(node.body);
}

Value Evaluator::make_macro(const Macro &macro) {
  if (!spend_on_kept()) return {};
  for (Scope *scope = scope_; scope != nullptr; scope = scope->parent) scope->is_kept = true;
  return std::make_shared<const Callable>(Callable{.builtin = nullptr, .self = {}, .macro = &macro, .scope = scope_});
}

Evaluator::Flow Evaluator::run_node(const MacroDefinition &node) {
  set(scope_->variables, node.macro.name, make_macro(node.macro));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_node(const CallBlock &node) {
  const auto &call_of = std::get<CallOf>(node.call->node);
  const Value callee = evaluate(call_of.callee);
  CallArguments arguments = evaluate(call_of.arguments);
  arguments.named.emplace_back("caller", make_macro(node.caller));
  out_.append(to_text(*this, call(callee, std::move(arguments))));
  return Flow::kNext;
}

TracedText Evaluator::capture(const Body &body) {
  TextBuilder outer = std::exchange(out_, TextBuilder(*this));
  run_body(body);
  std::swap(out_, outer);
  return outer.take();
}

Value Evaluator::filtered(const ExpressionPtr &filters, const Body &body) {
  Value text;
  {
    const Block block(*this);
    text = capture(body);
  }
  Value outer = std::exchange(captured_, std::move(text));
  Value result = evaluate(filters);
  captured_ = std::move(outer);
  return result;
}

void Evaluator::assign(const Target &target, Value value) {
  if (failed()) return;
  if (target.is_tuple) {
    std::vector<Value> items = items_of(*this, value);
    if (items.size() != target.parts.size()) {
      fail("cannot assign {} values to {} names", items.size(), target.parts.size());
      return;
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], std::move(items[i]));
    return;
  }
  if (target.attribute.empty()) return set(scope_->variables, target.name, std::move(value));
  const Value object = evaluate_node(Name{target.name});
  if (object.name_space() == nullptr) {
    fail("cannot set '{}.{}': '{}' is {}, not a namespace", target.name, target.attribute, target.name,
         type_name(object));
    return;
  }
  set(object.name_space()->fields, target.attribute, std::move(value));
}

Value Evaluator::call(const Value &callee, CallArguments arguments) {
  if (failed()) return {};
  if (callee.is_undefined()) return fail_undefined(callee);
  const Callable *callable = callee.callable();
  if (callable == nullptr) return fail("{} cannot be called", type_name(callee));
  if (callable->builtin == nullptr) return call_macro(*callable, std::move(arguments));
  const std::string_view what = callable->self.is_undefined() ? "function" : "method";
  return call_builtin(*this, what, *callable->builtin, callable->self, std::move(arguments));
}

// Which of a macro's parameters has a name; their number: none.
size_t Evaluator::place_of(const Macro &macro, std::string_view name) {
  if (!spend_on_items(macro.parameters.size())) return macro.parameters.size();
  const auto same_name = [&](const Parameter &parameter) { return same(parameter.name, name); };
  const auto found = std::find_if(macro.parameters.begin(), macro.parameters.end(), same_name);
  return static_cast<size_t>(found - macro.parameters.begin());
}

// What no parameter takes, as `varargs` and `kwargs`, where the macro's body asks for them.
void Evaluator::bind_rest(const Macro &macro, CallArguments &arguments, Scope &scope) {
  if (macro.takes_varargs) {
    std::vector<Value> &given = arguments.positional;
    const auto rest = given.begin() + static_cast<ptrdiff_t>(std::min(given.size(), macro.parameters.size()));
    set(scope.variables, "varargs", list({rest, given.end()}, Sequence::Kind::kTuple));
    given.erase(rest, given.end());
  }
  if (!macro.takes_kwargs) return;
  const size_t n_given = arguments.positional.size();
  const auto is_rest = [&](const auto &argument) {
    const size_t place = place_of(macro, argument.first);
    const bool is_free = place >= n_given && place < macro.parameters.size();
    return argument.first != "caller" && !is_free;
  };
  DictItems rest;
  for (const auto &argument : arguments.named)
    if (is_rest(argument)) rest.emplace_back(make_text(argument.first, Origin::kTemplate), argument.second);
  std::erase_if(arguments.named, is_rest);
  set(scope.variables, "kwargs", dict(std::move(rest)));
}

// Defaults see the parameters before them, so they are evaluated in the macro's own scope.
void Evaluator::bind(const Macro &macro, CallArguments arguments, Scope &scope) {
  const std::vector<Parameter> &parameters = macro.parameters;
  if (arguments.positional.size() > parameters.size()) {
    fail("macro '{}' takes at most {} arguments, found {}", macro.name, parameters.size(), arguments.positional.size());
    return;
  }
  for (auto &[name, value] : arguments.named) {
    const size_t place = place_of(macro, name);
    const bool known = place < parameters.size();
    if (!known && name != "caller") return void(fail("macro '{}' has no parameter '{}'", macro.name, name));
    if (known && place < arguments.positional.size())
      return void(fail("macro '{}': the argument '{}' is given twice", macro.name, name));
    set(scope.variables, name, std::move(value));
  }
  for (size_t i = 0; i < parameters.size() && spend(2 + parameters[i].name.size() / 16); ++i) {
    const Parameter &parameter = parameters[i];
    if (i < arguments.positional.size()) {
      set(scope.variables, parameter.name, std::move(arguments.positional[i]));
    } else if (find(scope.variables, parameter.name) == nullptr) {
      Value value = parameter.fallback != nullptr
                        ? evaluate(parameter.fallback)
                        : Value::undefined(fmt::format("the parameter '{}' was not given", parameter.name));
      set(scope.variables, parameter.name, std::move(value));
    }
  }
}

Value Evaluator::call_macro(const Callable &callable, CallArguments arguments) {
  const Depth depth(*this);
  if (failed()) return {};
  const uint32_t line = this->line();
  Block block(*this, callable.scope);
  bind_rest(*callable.macro, arguments, block.scope());
  bind(*callable.macro, std::move(arguments), block.scope());
  Value text = capture(callable.macro->body);
  if (!failed()) at_line(line);
  return text;
}

}  // namespace bonsai::jinja
