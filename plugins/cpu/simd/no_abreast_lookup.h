// The vocabulary's AbreastLookup where there is none, and what it is where there is one: the end of vector.h.
#pragma once

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Whether sums of activations are looked up for 32 vectors side by side (kernels/abreast_matmul.inl.h). A tier where
// they are has in it, all static,
//   kFewestVectors, kFewestRows                               AbreastKernel's
//   kSignBytes                                                as SignLookup's
//   kInTurn                                                   whether groups are looked up in turn, or together
//   kHalves                                                   whether an I16x32 is two registers: records come ahead
//   kMultipliesLast                                           together: whether a block's last group is multiplied
//   kHeldEntries                                              of a table, that registers have room for
//   I16x32 load(const int16_t *), void store(int16_t *, I16x32)   of 64 aligned bytes
//   I16x32 add(a, b), I16x32 sub(a, b)                        of 16 bits, around zero
//   void hold(I16x32 &a, uint64_t &bits)                      for the compiler: what follows is not to begin before
//   void interleave(I16x32 a, I16x32 b, I16x32 &first, I16x32 &second)
//       pairs of a's and b's lanes: of lanes 8 i to 8 i + 3 to `first`, of the others to `second`
// and if it multiplies
//   Bytes64 join_bytes(I16x32 even, I16x32 odd)   the lower bytes of each lane, one behind the other
//   I16x32 pairs_of(DotSum)                       sums of up to 16 bits; the other lane of each is unspecified
//   void hold(Bytes64 &)                          is to be in a register here
//   void hold(DotSum &, DotSum &, uint64_t &)     as above
// and where groups are looked up in turn
//   kRows                                                     that go along
//   I16x32 load_once(const int16_t *)                         for the compiler: one load
//   WordsAhead(const uint8_t *line), load(line), split()      has 64 aligned bytes, and those that were loaded last
//   take(uint32_t quarter), words[2]                          and two words of 64 bits of them
// and what puts the bytes of a group that belong to a row, a record, one behind the other. A record's row among those
// that are unpacked together is row_of(uint32_t record); kExists says which there are.
//   SignRecords::store_records(const uint8_t *words, uint8_t *records)
//       of a pair of tiles in a strip, 4 bytes as their words have them
//   CodeRecords::store_records(const uint8_t *words, uint8_t *records)
//       of a tile of 2-bit codes, 8 bytes as their words have them
//   TernaryRecords::store_records(const uint8_t *words, uint8_t *records)
//       the same of codes of 0 to 2: the four codes of each byte in base 3
//   TritRecords::store_records(I16x32 first, I16x32 second, I16x32 third, I16x32 piece, uint8_t *records)
//       of a group's words of a pair of tiles in base 3 and its piece (code_layout.h), 8 bytes: kTritFieldColumns
//       has their columns
struct AbreastLookup {
  static constexpr bool kExists = false;
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
