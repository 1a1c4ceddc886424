// Schemas of arrays.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "core/grammar/json_text.h"
#include "core/grammar/ordered_list.h"
#include "core/grammar/schema_scalars.h"
#include "core/grammar/schema_translator.h"

namespace bonsai::grammar {
namespace {

constexpr size_t kMostPrefixItems = 64;
// Sets of values that have come. Where there would be more, the values come in their order.
constexpr size_t kMostSets = 128;
constexpr size_t kMostListedInAnyOrder = 32;  // as a set is a word's bits

struct Counts {
  uint32_t least, most;
};

// At least one item: the first ones, those from `least` on only if another follows or they are the last, and then any
// number of further ones.
Expression item_list(const std::vector<Expression> &first, const std::optional<Expression> &further, Counts counts) {
  Expression tail;  // an empty sequence
  const auto n_first = static_cast<uint32_t>(first.size());
  if (further) {
    const uint32_t more = counts.most == kUnbounded ? kUnbounded : counts.most - n_first;
    const uint32_t needed = counts.least > n_first ? counts.least - n_first : 0;
    const bool begins = n_first == 0;
    Expression next = repeat(sequence({comma(), *further}), needed - (begins && needed > 0),
                             more == kUnbounded ? more : more - begins);
    tail = begins ? sequence({*further, std::move(next)}) : std::move(next);
  }
  for (uint32_t i = n_first; i > 0; --i) {
    Expression item = i == 1 ? first[0] : sequence({comma(), first[i - 1]});
    tail = sequence({std::move(item), std::move(tail)});
    if (i > std::max(counts.least, 1u)) tail = optional(std::move(tail));
  }
  return tail;
}

// At least one of the values, none twice, in any order: a node for each set of those that have come. nullopt: they are
// too many sets.
std::optional<Expression> any_order(const std::vector<Expression> &values, Counts counts) {
  if (values.size() >= kMostListedInAnyOrder) return std::nullopt;
  struct Set {
    uint32_t members, size;
    uint32_t node, behind_comma;
  };
  GraphMaker graph;
  const uint32_t between = graph.add_part(comma());
  for (const Expression &value : values) graph.add_part(value);
  std::vector<Set> sets = {{0, 0, 0, 0}};
  for (size_t at = 0; at < sets.size(); ++at) {
    const Set from = sets[at];
    if (from.size >= std::max(counts.least, 1u)) graph.add_end(from.node);
    if (from.size == counts.most) continue;
    if (from.size > 0) graph.add_edge(from.node, from.behind_comma, between);
    for (uint32_t value = 0; value < values.size(); ++value) {
      const uint32_t members = from.members | uint32_t{1} << value;
      if (members == from.members) continue;
      auto to = std::find_if(sets.begin(), sets.end(), [&](const Set &set) { return set.members == members; });
      if (to == sets.end()) {
        if (sets.size() == kMostSets) return std::nullopt;
        const uint32_t node = graph.add_node();
        to = sets.insert(sets.end(), {members, from.size + 1, node, graph.add_node()});
      }
      graph.add_edge(from.behind_comma, to->node, 1 + value);
    }
  }
  return graph.take();
}

Expression in_their_order(std::vector<Expression> values, Counts counts) {
  OrderedList list;
  for (Expression &value : values) list.members.push_back({std::move(value), false});
  std::tie(list.least, list.most) = std::tie(counts.least, counts.most);
  return list.expression();
}

// Values that are the same to a schema are written in one way only: 1 and 1.0.
std::vector<Expression> different(Translator &translator, const Json &values, Counts counts) {
  // As many sets of values may have come, or numbers of them.
  const size_t n_counts = counts.most == kUnbounded ? std::max(counts.least, 1u) : counts.most;
  const size_t n_copies = values.size() < kMostListedInAnyOrder ? kMostSets : n_counts;
  std::unordered_set<std::string> seen;
  std::vector<Expression> texts;
  for (const Json &value : values)
    if (seen.insert(key_of(value)).second) texts.push_back(translator.listed(value, n_copies));
  return texts;
}

SchemaResult<Expression> unique_items(Translator &translator, const Json &bare, Counts counts, const Place &place) {
  if (bare.contains("prefixItems"))
    return fail_at(place.pointer, "'uniqueItems' beside 'prefixItems' is not supported");
  const auto values = bare.contains("items") ? translator.finite_values(bare["items"], place.below("items"))
                                             : SchemaResult<std::optional<Json>>(std::nullopt);
  if (!values) return tl::unexpected(values.error());
  if (!*values)
    return fail_at(place.pointer,
                   "'uniqueItems' is only supported for items of an enum, a boolean, or whole numbers between bounds");
  std::vector<Expression> texts = different(translator, **values, counts);
  if (counts.least > texts.size())
    return nothing_at(place.pointer, "'minItems': expected at most {}, the number of different values, found {}",
                      texts.size(), counts.least);
  if (counts.most == 0 || texts.empty()) return literal("[]");
  auto list = any_order(texts, counts);
  if (!list) list = in_their_order(std::move(texts), counts);
  return enclosed('[', *std::move(list), ']', counts.least == 0);
}

}  // namespace

SchemaResult<Expression> array_schema(Translator &translator, const Json &bare, const Place &place) {
  const auto range = read_counts(bare, "minItems", "maxItems", place.pointer);
  if (!range) return tl::unexpected(range.error());
  const auto [least, most] = *range;
  const Json unique = bare.contains("uniqueItems") ? bare["uniqueItems"] : Json(false);
  if (!unique.is_boolean()) return fail_at(place.pointer, "'uniqueItems': expected true or false");
  if (unique == true && most > 1) return unique_items(translator, bare, {least, most}, place);
  std::vector<Expression> items;
  bool ends = false;  // in front of a false, as it does behind them where "items" is one
  if (bare.contains("prefixItems")) {
    const Json &prefix = bare["prefixItems"];
    if (!prefix.is_array() || prefix.size() > kMostPrefixItems)
      return fail_at(place.pointer, "'prefixItems': expected a list of at most {} schemas", kMostPrefixItems);
    for (size_t i = 0; i < prefix.size() && i < most; ++i) {
      if ((ends = prefix[i] == false)) break;
      auto item = translator.schema(prefix[i], place.below("prefixItems").at(i));
      if (!item) return i < least ? item : of_optional_part(item.error());
      items.push_back(*std::move(item));
    }
  }
  std::optional<Expression> further;
  const bool closed =
      ends || (bare.contains("items") ? bare["items"] == false : bare.contains("prefixItems") && least <= items.size());
  if (!closed && items.size() < most) {
    auto item = bare.contains("items") ? translator.schema(bare["items"], place.below("items")) : call(kValue);
    if (!item) return items.size() < least ? item : of_optional_part(item.error());
    auto rule = translator.as_rule(*std::move(item), place.below("items").pointer);
    if (!rule) return rule;
    further = *std::move(rule);
  }
  if (!further && least > items.size())
    return nothing_at(place.pointer, "'minItems' asks for more items than there may be");
  return enclosed('[', item_list(items, further, {least, most}), ']', least == 0);
}

}  // namespace bonsai::grammar
