// The vocabulary's SignLookup where there is none, and what it is where there is one: the end of vector.h.
#pragma once

#include <stddef.h>

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Whether sums of signed activations are looked up in tables (kernels/lookup_matmul.inl.h). A tier where they are has
// in it, all static,
//   kSignBytes                                             whether it is for Packing::kSignBytes
//   kElements                                              of a group's tables: 32 columns'
//   kTokens                                                a power of two: tokens that sum_group takes at most
//   kTokensOfStrips                                        that whole strips are multiplied with side by side, at most
//   kPairsAtOnce[]                                         pairs of tiles that share loads of tables, for 1, 2, 4 ...
//       kTokens tokens: powers of two
//   kSumsInRegisters                                       for one token, a block of kPairsAtOnce pairs after the other
//   kResultsInMemory                                       whether those of several tokens and one strip stay there
//       between blocks
//   void sum_group(const uint8_t *words, tables[T], size_t group, sums[kPairs][1][T])
//       of the group's tables, `group` elements behind the beginning of each token's, the sum for each row of two tiles
//       that share vectors of words: two rows in each lane, the first tile's in the even places. At most 32 * 127
//   void build_groups(const int8_t *codes, size_t groups, int16_t *tables)   the tables of 32 codes each
//   void sum_row(const uint32_t (&signs)[4], const int8_t *codes, int32_t (&sums)[4])
//       of one row and four groups: the sums of codes, +code where its bit is 1 and -code where it is 0
// and for bounds (kernels/bounds_matmul.inl.h)
//   kBoundPairs                                            a power of two: pairs of vectors that sum_bytes takes
//   kTableElements                                         of each table of a group
//   kByteParts                                             that these tables fall into, the same number each
//   void sum_bytes(words, tables, group, sums[kPairs][kByteParts][T])   as sum_group, for each part of what
//       narrow_table made: the lower byte of each lane is the sum for the first vector, the upper one for the second
//   TableRange range_of_table(table, elements)             the least and the greatest sum in a table
//   void narrow_table(first, of_first, second, of_second, elements, int16_t *to)   bytes of two vectors' table
// and what tables of any kind have in common
//   I32x16 even_lanes(I16x32), I32x16 odd_lanes(I16x32)    of each pair, widened
//   float load_half(const void *)                          binary16
//   void store_codes(int8_t *, I32x16)                     16 codes of -127..127
//   I16x32 splat_lanes(int32_t)                            the lower 16 bits
//   I16x32 add(a, b)                                       of 16 bits, around zero
//   I16x32 upper_bytes(a)                                  unsigned lanes divided by 256
//   I16x32 take_upper(a, b)                                a - 256 b, around zero
struct SignLookup {
  static constexpr bool kExists = false, kSignBytes = false;
  static constexpr size_t kElements = 0;
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
