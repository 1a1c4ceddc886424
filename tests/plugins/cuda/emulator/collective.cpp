#include "tests/plugins/cuda/emulator/collective.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

namespace bonsai::emulation {
namespace {

using Lanes = std::span<const Collective *const, kLanes>;

template <class Operands>
Operands &operands_of(const Collective *lane) {
  return *static_cast<Operands *>(lane->operands);
}

void shuffle_lanes(Lanes lanes) {
  for (const Collective *lane : lanes) {
    auto &shuffle = operands_of<Shuffle>(lane);
    shuffle.result = operands_of<Shuffle>(lanes[shuffle.from % kLanes]).value;
  }
}

void ballot_lanes(Lanes lanes) {
  unsigned votes = 0;
  for (unsigned i = 0; i < kLanes; ++i) votes |= operands_of<Ballot>(lanes[i]).predicate ? 1u << i : 0;
  for (const Collective *lane : lanes) operands_of<Ballot>(lane).result = votes;
}

// Matrices of an mma, gathered from the lanes' fragments. `Word` turns 32 bits into what one column of them holds.
constexpr unsigned kRows = 16, kColumns = 8;

// a[row][word] and b[column][word]: `words` 32-bit words along k, 4 for each register of a lane.
struct Words {
  uint32_t a[kRows][8];
  uint32_t b[kColumns][8];
};

// `registers` of b: 1 or 2; a has twice as many.
Words gather(Lanes lanes, unsigned registers) {
  Words words;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const auto &mma = operands_of<Mma>(lanes[lane]);
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < registers; ++i) {
      words.a[g][4 * i + t] = mma.a[2 * i];
      words.a[g + 8][4 * i + t] = mma.a[2 * i + 1];
      words.b[g][4 * i + t] = mma.b[i];
    }
  }
  return words;
}

// Calls element(c, row, column) for each element that a lane holds.
template <class Number, class Element>
void for_each_element(Lanes lanes, Element element) {
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    auto *c = static_cast<Number *>(operands_of<Mma>(lanes[lane]).c);
    const unsigned g = lane / 4, t = lane % 4;
    for (unsigned i = 0; i < 4; ++i) element(c[i], g + i / 2 * 8, 2 * t + i % 2);
  }
}

// Sums wrap, as the hardware's do without .satfinite.
int add_wrapping(int a, int b) { return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b)); }

void mma_s8(Lanes lanes, unsigned registers) {
  const Words words = gather(lanes, registers);
  int8_t a[kRows][32], b[kColumns][32];
  static_assert(sizeof a == sizeof words.a && sizeof b == sizeof words.b);
  std::memcpy(a, words.a, sizeof a);
  std::memcpy(b, words.b, sizeof b);
  const unsigned k = 16 * registers;
  for_each_element<int>(lanes, [&](int &c, unsigned row, unsigned column) {
    int sum = 0;
    for (unsigned i = 0; i < k; ++i) sum += a[row][i] * b[column][i];
    c = add_wrapping(c, sum);
  });
}

// Every half's value: conversions are most of an mma's time.
const float *half_values() {
  static const std::vector<float> values = [] {
    std::vector<float> all(1 << 16);
    for (uint32_t bits = 0; bits < all.size(); ++bits) all[bits] = half_to_float(static_cast<uint16_t>(bits));
    return all;
  }();
  return values.data();
}

// Products of halves are exact in float64, and their sum is all but exact: this is what the hardware's sum approaches.
void mma_f16(Lanes lanes) {
  constexpr unsigned kK = 16;
  const Words words = gather(lanes, 2);
  const float *values = half_values();
  double a[kRows][kK], b[kColumns][kK];
  const auto number = [values](uint32_t word, unsigned i) { return values[word >> (16 * (i % 2)) & 0xFFFF]; };
  for (unsigned i = 0; i < kK; ++i) {
    for (unsigned row = 0; row < kRows; ++row) a[row][i] = number(words.a[row][i / 2], i);
    for (unsigned column = 0; column < kColumns; ++column) b[column][i] = number(words.b[column][i / 2], i);
  }
  for_each_element<float>(lanes, [&](float &c, unsigned row, unsigned column) {
    double sum = c;
    for (unsigned i = 0; i < kK; ++i) sum += a[row][i] * b[column][i];
    c = static_cast<float>(sum);
  });
}

void mma_b1(Lanes lanes) {
  const Words words = gather(lanes, 1);
  for_each_element<int>(lanes, [&](int &c, unsigned row, unsigned column) {
    for (unsigned i = 0; i < 4; ++i) c = add_wrapping(c, std::popcount(words.a[row][i] & words.b[column][i]));
  });
}

const char *name(Collective::Kind kind) {
  switch (kind) {
    case Collective::Kind::kSyncBlock:
      return "sync_block";
    case Collective::Kind::kSyncWarp:
      return "sync_warp";
    case Collective::Kind::kWaitForKernels:
      return "wait_for_kernels_ahead";
    case Collective::Kind::kShuffle:
      return "shuffle";
    case Collective::Kind::kBallot:
      return "ballot";
    case Collective::Kind::kMmaS8K32:
      return "mma_s8_k32";
    case Collective::Kind::kMmaS8K16:
      return "mma_s8_k16";
    case Collective::Kind::kMmaF16K16:
      return "mma_f16_k16";
    case Collective::Kind::kMmaB1K128:
      return "mma_b1_k128";
  }
  return "?";
}

}  // namespace

bool same_place(const Collective &a, const Collective &b) {
  if (a.kind != b.kind) return false;
  if (std::memcmp(&a.where, &b.where, sizeof(Where)) == 0) return true;  // it points to what the compiler wrote down
  return a.where.line() == b.where.line() && a.where.column() == b.where.column() &&
         std::string_view(a.where.file_name()) == b.where.file_name();
}

std::string describe(const Collective &collective) {
  const std::string_view path = collective.where.file_name();
  return fmt::format("{} ({}:{})", name(collective.kind), path.substr(path.find_last_of('/') + 1),
                     collective.where.line());
}

void perform(Lanes lanes) {
  switch (lanes[0]->kind) {
    case Collective::Kind::kSyncBlock:
    case Collective::Kind::kSyncWarp:
    case Collective::Kind::kWaitForKernels:
      return;
    case Collective::Kind::kShuffle:
      return shuffle_lanes(lanes);
    case Collective::Kind::kBallot:
      return ballot_lanes(lanes);
    case Collective::Kind::kMmaS8K32:
      return mma_s8(lanes, 2);
    case Collective::Kind::kMmaS8K16:
      return mma_s8(lanes, 1);
    case Collective::Kind::kMmaF16K16:
      return mma_f16(lanes);
    case Collective::Kind::kMmaB1K128:
      return mma_b1(lanes);
  }
}

}  // namespace bonsai::emulation
