#include "core/grammar/ordered_list.h"

#include <algorithm>

#include "core/grammar/json_text.h"

namespace bonsai::grammar {
namespace {

constexpr uint32_t kNone = ~0u;

// One node in front of each member and number of what has come, so far as numbers matter: without bounds only whether
// something has come.
class ListGraph {
 public:
  ListGraph(const OrderedList &list, uint32_t n_counts, bool bounded)
      : list_(list), n_counts_(n_counts), bounded_(bounded), nothing_(graph_.add_part({})) {
    comma_ = graph_.add_part(comma());
    front_.push_back(0);
    for (uint32_t count = 1; count <= n_counts_; ++count) front_.push_back(graph_.add_node());
  }

  Expression make() {
    for (const ListMember &member : list_.members) pass(member);
    for (uint32_t count = std::max(list_.least, 1u); count <= n_counts_; ++count) graph_.add_end(front_[count]);
    if (list_.others) add_others();
    return graph_.take();
  }

 private:
  // The number when one more has come; kNone: there may be no more.
  uint32_t next(uint32_t count) const { return count < n_counts_ ? count + 1 : bounded_ ? kNone : count; }

  std::vector<uint32_t> nodes_for_counts() {
    std::vector<uint32_t> nodes(n_counts_ + 1);
    for (uint32_t &node : nodes) node = graph_.add_node();
    return nodes;
  }

  void pass(const ListMember &member) {
    const std::vector<uint32_t> begin = nodes_for_counts(), behind = nodes_for_counts();  // begin[0] stays alone
    const uint32_t text = graph_.add_part(member.text);
    for (uint32_t count = 0; count <= n_counts_; ++count) {
      if (next(count) != kNone) graph_.add_edge(front_[count], begin[next(count)], count == 0 ? nothing_ : comma_);
      if (!member.needed) graph_.add_edge(front_[count], behind[count], nothing_);
      if (count > 0) graph_.add_edge(begin[count], behind[count], text);
    }
    front_ = behind;
  }

  // As they may all be the same thing, they count once at the least.
  void add_others() {
    const std::vector<uint32_t> begin = nodes_for_counts(), behind = nodes_for_counts();
    const uint32_t text = graph_.add_part(*list_.others);
    for (uint32_t count = 0; count <= n_counts_; ++count) {
      if (count > 0) {
        graph_.add_edge(begin[count], behind[count], text);
        graph_.add_end(behind[count]);
      }
      if (next(count) == kNone) continue;
      if (count + 1 >= list_.least) graph_.add_edge(front_[count], begin[next(count)], count == 0 ? nothing_ : comma_);
      if (count > 0) graph_.add_edge(behind[count], begin[next(count)], comma_);
    }
  }

  const OrderedList &list_;
  uint32_t n_counts_;
  bool bounded_;
  GraphMaker graph_;
  uint32_t nothing_, comma_ = 0;  // parts
  std::vector<uint32_t> front_;   // nodes by count: what has been passed is done
};

bool is_bounded(const OrderedList &list) {
  return list.most != kUnbounded && (list.others || list.most < list.members.size());
}

// The highest number that is told from higher ones.
uint32_t counts_of(const OrderedList &list) { return is_bounded(list) ? list.most : std::max(list.least, 1u); }

}  // namespace

bool OrderedList::may_be_empty() const {
  return least == 0 && std::none_of(members.begin(), members.end(), [](const ListMember &one) { return one.needed; });
}

bool OrderedList::is_too_long() const {
  return counts_of(*this) > 1 && (members.size() + 1) * counts_of(*this) > kMostCounts;
}

Expression OrderedList::expression() const { return ListGraph(*this, counts_of(*this), is_bounded(*this)).make(); }

}  // namespace bonsai::grammar
