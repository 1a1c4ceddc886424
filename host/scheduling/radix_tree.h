// Which KV blocks hold which beginnings of texts, so that a request need not compute what another has computed. A radix
// tree over token ids as in SGLang (arXiv:2312.07104), in steps of whole blocks.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "host/scheduling/block_pool.h"

namespace bonsai::host {

// A node is one KV block: the tokens in it, behind those of its parents. Blocks that are full can be shared as they
// are. A leaf may also hold a block that is not full, the end of a text: nobody writes to it again, and whoever goes on
// from there copies it first. The same goes for the beginning of any block, where two texts part inside it.
//
// The tree is one user of each of its blocks (BlockPool), and sequences are the others; blocks are shared in no other
// way. What only the tree uses is idle: it is given up leaf by leaf, the least recently used first, when blocks are
// needed.
class RadixTree {
 public:
  class Node;

  // The pool outlives the tree.
  RadixTree(BlockPool &pool, uint32_t block_size);
  ~RadixTree();
  RadixTree(const RadixTree &) = delete;
  RadixTree &operator=(const RadixTree &) = delete;

  Node *root() { return root_.get(); }

  struct Match {
    Node *node = nullptr;          // the last one whose block is full and agrees in all its tokens; or the root
    std::vector<uint32_t> blocks;  // of the nodes down to there
    uint32_t copy_from = 0;        // a block that agrees with what follows, in its first
    uint32_t n_copied = 0;         // tokens; 0: there is none
  };
  // The longest beginning of `tokens` that the tree holds, which counts as used.
  Match match(std::span<const int32_t> tokens);

  // Adds a full block of tokens behind `parent`, with the tree as one more user of `block`. If the tree has these
  // tokens there already, it stays as it is. Returns their node in both cases: its block() says which it was.
  Node *add(Node *parent, std::span<const int32_t> tokens, uint32_t block);

  // The same for the end of a text, less than a block of tokens. Nothing is added where the tree holds them already.
  void add_end(Node *parent, std::span<const int32_t> tokens, uint32_t block);

  // Marks a node as used now. Its parents need no mark: they are given up after it in any case.
  void touch(Node *node);

  // Gives up the least recently used leaf that is idle, and with it its block. False: there is none.
  bool evict();

  // Gives everything up.
  void clear();

  uint32_t n_blocks() const { return n_blocks_; }
  uint32_t n_idle() const { return n_blocks_ - pool_.n_shared(); }  // blocks that evict() can free, one after the other

  // Every block with all the tokens up to its end.
  void visit(const std::function<void(std::span<const int32_t> tokens, uint32_t block)> &visitor) const;

 private:
  using Tokens = std::vector<int32_t>;
  struct InOrder {
    using is_transparent = void;
    bool operator()(std::span<const int32_t> a, std::span<const int32_t> b) const;
  };
  // No key is the beginning of another, so the key that agrees longest with a text is a neighbour of where it would be.
  using Children = std::map<Tokens, std::unique_ptr<Node>, InOrder>;

  Node *insert(Node *parent, std::span<const int32_t> tokens, uint32_t block);
  void remove(Node *leaf);

  BlockPool &pool_;
  const uint32_t block_size_;
  std::unique_ptr<Node> root_;
  std::set<std::pair<uint64_t, Node *>> leaves_;  // by the time of their last use
  uint64_t now_ = 0;                              // counts uses: no two are at the same time
  uint32_t n_blocks_ = 0;
};

class RadixTree::Node {
 public:
  uint32_t block() const { return block_; }  // of the root: none

 private:
  friend class RadixTree;
  Node *parent_ = nullptr;
  const Tokens *tokens_ = nullptr;  // its key among the parent's children
  uint32_t block_ = 0;
  uint64_t used_ = 0;
  Children children_;
};

}  // namespace bonsai::host
