#include "host/scheduling/radix_tree.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace bonsai::host {
namespace {

size_t common_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first -
                             a.begin());
}

}  // namespace

bool RadixTree::InOrder::operator()(std::span<const int32_t> a, std::span<const int32_t> b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

RadixTree::RadixTree(BlockPool &pool, uint32_t block_size)
    : pool_(pool), block_size_(block_size), root_(std::make_unique<Node>()) {}

// Leaf by leaf: a chain of nodes as long as a context would be deep for destructors that call each other.
RadixTree::~RadixTree() { clear(); }

RadixTree::Match RadixTree::match(std::span<const int32_t> tokens) {
  Match match;
  match.node = root_.get();
  for (;;) {
    const auto next = tokens.first(std::min<size_t>(block_size_, tokens.size()));
    Children &children = match.node->children_;
    const auto after = children.lower_bound(next);
    if (after != children.end() && next.size() == block_size_ && after->first.size() == block_size_ &&
        std::equal(next.begin(), next.end(), after->first.begin())) {
      match.node = after->second.get();
      match.blocks.push_back(match.node->block_);
      tokens = tokens.subspan(block_size_);
      continue;
    }
    Node *nearest = nullptr;
    const auto consider = [&](Children::iterator child) {
      const size_t n = common_length(next, child->first);
      if (n <= match.n_copied) return;
      match.n_copied = static_cast<uint32_t>(n);
      match.copy_from = child->second->block_;
      nearest = child->second.get();
    };
    if (after != children.end()) consider(after);
    if (after != children.begin()) consider(std::prev(after));
    touch(nearest != nullptr ? nearest : match.node);
    return match;
  }
}

RadixTree::Node *RadixTree::add(Node *parent, std::span<const int32_t> tokens, uint32_t block) {
  assert(tokens.size() == block_size_);
  const auto found = parent->children_.find(tokens);
  Node *const node = found != parent->children_.end() ? found->second.get() : insert(parent, tokens, block);
  touch(node);
  return node;
}

void RadixTree::add_end(Node *parent, std::span<const int32_t> tokens, uint32_t block) {
  assert(tokens.size() < block_size_);
  if (tokens.empty()) return touch(parent);
  const auto after = parent->children_.lower_bound(tokens);
  const bool held = after != parent->children_.end() && common_length(tokens, after->first) == tokens.size();
  touch(held ? after->second.get() : insert(parent, tokens, block));
}

// A child that is the beginning of the new one is given up for it. It is a text's end, so nobody else uses it, and in
// the order of keys it comes right before.
RadixTree::Node *RadixTree::insert(Node *parent, std::span<const int32_t> tokens, uint32_t block) {
  Children &children = parent->children_;
  auto after = children.lower_bound(tokens);
  if (after != children.begin()) {
    const auto before = std::prev(after);
    if (common_length(tokens, before->first) == before->first.size()) remove(before->second.get());
  }
  if (children.empty()) leaves_.erase({parent->used_, parent});
  const auto [place, added] = children.emplace(Tokens(tokens.begin(), tokens.end()), std::make_unique<Node>());
  assert(added);
  Node *const node = place->second.get();
  node->parent_ = parent;
  node->tokens_ = &place->first;
  node->block_ = block;
  leaves_.insert({node->used_, node});
  pool_.share(block);
  ++n_blocks_;
  return node;
}

void RadixTree::remove(Node *leaf) {
  Node *const parent = leaf->parent_;
  leaves_.erase({leaf->used_, leaf});
  pool_.release(leaf->block_);
  --n_blocks_;
  parent->children_.erase(parent->children_.find(*leaf->tokens_));
  if (parent->children_.empty() && parent != root_.get()) leaves_.insert({parent->used_, parent});
}

void RadixTree::touch(Node *node) {
  if (node == root_.get()) return;
  const bool is_leaf = node->children_.empty();
  if (is_leaf) leaves_.erase({node->used_, node});
  node->used_ = ++now_;
  if (is_leaf) leaves_.insert({node->used_, node});
}

// Leaves that sequences use are among the last used ones: hardly any is passed over.
bool RadixTree::evict() {
  const auto idle = [&](const auto &leaf) { return pool_.users(leaf.second->block_) == 1; };
  const auto oldest = std::find_if(leaves_.begin(), leaves_.end(), idle);
  if (oldest == leaves_.end()) return false;
  remove(oldest->second);
  return true;
}

void RadixTree::clear() {
  while (!leaves_.empty()) remove(leaves_.begin()->second);
}

void RadixTree::visit(const std::function<void(std::span<const int32_t>, uint32_t)> &visitor) const {
  std::vector<std::pair<const Node *, Tokens>> open;
  open.push_back({root_.get(), {}});
  while (!open.empty()) {
    const auto [node, before] = std::move(open.back());
    open.pop_back();
    for (const auto &[tokens, child] : node->children_) {
      Tokens all = before;
      all.insert(all.end(), tokens.begin(), tokens.end());
      visitor(all, child->block_);
      open.push_back({child.get(), std::move(all)});
    }
  }
}

}  // namespace bonsai::host
