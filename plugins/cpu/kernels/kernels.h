// The kernels of the CPU backend, one table of them for each instruction-set tier. All tiers give the same bytes;
// a tier is chosen once, when a device is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/cpu/kernels/abreast.h"
#include "plugins/cpu/kernels/attention.h"
#include "plugins/cpu/kernels/bounds.h"
#include "plugins/cpu/kernels/packed_matrix.h"
#include "plugins/cpu/kernels/panels.h"
#include "plugins/cpu/kernels/prefetch.h"
#include "plugins/cpu/kernels/row_kernels.h"

namespace bonsai::cpu {

// n rows of activations to int8, in blocks of layout.block columns and groups of 32. A block of one group, with amax
// the largest magnitude: s = amax / 127, code = x * (127 / amax) rounded to nearest even. A block of several, with amax
// the block's and M = layout.most_multiplier: s = amax / (127 M); each group's integer m is its own largest magnitude
// times M / amax, rounded up, M at most; code = x * (1 / (s m)) rounded to nearest even, 0 where m is 0. So
// |code| <= 127, and a group's values are codes times s m. amax below 2^-118, of several groups 2^-104: codes, m and s
// are 0 (inverses would overflow). A NaN or an infinity in the block: codes and m are 0 and s is NaN, so that every
// output becomes NaN and the host can refuse it. The sums are exact.
struct QuantizeArgs {
  const float *x;   // (n, columns)
  size_t x_stride;  // elements from row to row
  uint32_t n;
  uint64_t columns;  // a multiple of layout.block
  ActivationLayout layout;
  uint64_t begin, end;  // whole blocks of each row's columns that are to be done
  std::byte *rows;      // (n, quantized_row_bytes(layout, columns)), aligned to 64
  // (n, columns / 32, table_elements(layout.tables)), if there are any, for matmul to look sums up in, or nullptr. With
  // them the rows have scales and integers for matmul, codes in the order of columns for multiply_few, and no sums.
  int16_t *tables;
};

// The most elements that a tier's tables for a group of activations have.
constexpr size_t kMostLookupElements = 448;

// y[i][r] = W[first_row + r] x[i] for rows [first_row, last_row) of a matrix and n vectors. A result does not depend on
// the range, on n, or on which of the n it is. NaN results have the bits 0x7FC00000.
//
// Repacked formats, with d, m or dmin of a block as floats, s the scale of the activations' block, a their codes and g
// the integers of their groups, 1 where the block is one group: for each block in order
//   y = fma((float)isum, d * s, y)      isum = Σ factor * q * g * a; q a weight's integer, without its offset, or
//                                       the number that it stands for (IQ4_NL, IQ4_XS);
//                                       factor 1, or the scale of the sub-block (Q2_K to Q6_K, IQ4_XS)
// and after each, if the format has minima,
//   y = fma((float)msum, m * s, y)      Q4_1, Q5_1: msum = Σ a
//   y = fma((float)msum, dmin * s, y)   Q2_K, Q4_K, Q5_K: msum = -Σ minimum of the sub-block * g * a
// with isum and msum exact in 32 bits (codes_dot.inl.h has the bounds), their conversion rounded to nearest even and
// each product and fma rounded once.
//
// Float formats: lane l of 16 sums w * x over columns l, l + 16, ... by fma in order; then the tree of reduce_add.
//
// FP8, with B = 120 (E4M3) or 112 (E5M2): x' = x 2^k with k such that the vector's largest magnitude, or 2^-126 if it
// is smaller, comes to 2^100 or more, less than 2^101; for each block in order
//   s = fma(code 2^-B, x', s) over its 32 columns in order, from 0;  y = fma(s, d, y)
// and in the end y 2^(B-k). Powers of two are multiplied by as two, 2^(e >> 1) and then the rest.
//
// Ranges that start and end on a multiple of kTileRows waste nothing.
struct MatmulArgs {
  const PackedMatrix *matrix;
  uint64_t first_row;
  uint64_t last_row;
  uint32_t n;
  const float *x;                   // float formats: (n, columns)
  size_t x_stride;                  // elements from row to row of x
  const std::byte *quantized_rows;  // repacked formats: what quantize made, in the format's activation_layout
  const int16_t *tables;            // the same, or nullptr
  float *y;                         // (n, last_row - first_row)
  size_t y_stride;                  // elements from row to row of y
  ReadingPlace then = {};           // what is read after these rows' weights, to be asked for in time
  Prefetch prefetch = Prefetch::kSecondLevel;
  // KernelTable::scratch_bytes, aligned to 64; nullptr: what needs it is done without it, but for matrices that are
  // packed for tables and have none.
  std::byte *scratch = nullptr;
  // Filled from these n vectors, of the kind that is the matrix's, for kernels that are given scratch; nullptr:
  // likewise.
  const std::byte *panels = nullptr;
};

// y[i] = W[rows[i]] x for one vector, of a matrix that takes tables of signs: the very results of matmul.
struct FewRowsArgs {
  const PackedMatrix *matrix;
  const uint64_t *rows;  // (n)
  uint32_t n;
  const std::byte *quantized_row;
  float *y;  // (n)
};

struct KernelTable {
  const char *name;  // the tier: "portable", "avx2", "avx2-vnni", "avx512", "avx512-panels", "avx512-panels32",
                     // "avx512-amx", "neon"
  // Elements of the tables for 32 columns. Of signs: matmul is faster with them for some vectors, and takes them for
  // matrices with sign_packing; 0: it does not take them. Of trits: it takes matrices with Packing::kTrits; 0: it does
  // not. Matrices that are packed for tables are multiplied with tables, but as the next line says.
  size_t sign_elements, trit_elements;
  Packing sign_packing;
  // Vectors that are multiplied with tables, at most: more are multiplied without, however the matrix is packed, given
  // the panels and the scratch_bytes that the tier asks for, if any.
  uint32_t most_with_signs = UINT32_MAX, most_with_trits = UINT32_MAX;
  PanelKernel panels = {};  // with which, and so much scratch, matmul is faster for many vectors
  size_t scratch_bytes = 0;
  // Of quantised vectors that are multiplied in one go, but from panels: a part of a second level.
  uint64_t vector_bytes = 256 * 1024;
  Prefetch prefetch = Prefetch::kSecondLevel;  // what matmul, bound and attend are told: the device's choice
  void (*quantize)(const QuantizeArgs &args);
  void (*matmul)(const MatmulArgs &args);
  AbreastKernel abreast;
  // Of matrices of signs, where they take tables: bounds that no result of matmul is larger than, and that are not NaN.
  void (*tabulate_bounds)(const TabulateBoundsArgs &args);
  void (*bound)(const MatmulArgs &args, const BoundTables &tables);  // args.quantized_rows and args.tables: unused
  void (*multiply_few)(const FewRowsArgs &args);
  void (*rms_norm)(const RmsNormArgs &args);
  void (*swiglu)(const SwigluArgs &args);
  void (*rotate)(const RotateArgs &args);
  void (*add_rows)(const AddArgs &args);
  void (*to_half)(const HalfArgs &args);
  void (*attend)(const AttendArgs &args);
  void (*attend_tile)(const AttendTileArgs &args);
  void (*fold)(const FoldArgs &args);
  void (*finish)(const FinishArgs &args);
  float (*max_value)(const float *x, size_t n);              // -infinity if all are NaN, which is left out
  double (*sum_exp)(const float *x, size_t n, float shift);  // of exp(x[i] - shift), in an order that n decides

  // How these kernels want matrices of a format, if no code in them is 3.
  Packing packing_of(quant::Format format) const {
    if (format == quant::Format::kQ1_0_G128) return sign_packing;
    if (!may_be_ternary(format)) return Packing::kUsual;
    return trit_elements > 0 ? Packing::kTrits : abreast.multiply ? Packing::kTernary : Packing::kUsual;
  }

  // Whether a matrix is one for abreast.multiply: of signs, or of 2-bit codes without minima.
  bool takes_abreast(const PackedMatrix &matrix) const {
    using quant::Format;
    if (!abreast.multiply || matrix.packing != packing_of(matrix.format)) return false;
    if (matrix.format == Format::kQ1_0_G128) return true;
    return matrix.format == Format::kQ2_0_G64 ? abreast.takes_q2_0_g64
                                              : abreast.takes_ternary && may_be_ternary(matrix.format);
  }

  // Whether there are tabulate_bounds, bound and multiply_few.
  bool has_bounds(SumTables kind) const { return kind == SumTables::kSigns && sign_elements > 0; }

  size_t table_elements(SumTables kind) const {
    return kind == SumTables::kSigns ? sign_elements : kind == SumTables::kTrits ? trit_elements : 0;
  }
  uint32_t most_looked_up(SumTables kind) const {
    return kind == SumTables::kSigns ? most_with_signs : kind == SumTables::kTrits ? most_with_trits : 0;
  }
};

const KernelTable &portable_kernels();
#if defined(__x86_64__)
const KernelTable &avx2_kernels();             // runs only where cpu_has_avx2()
const KernelTable &avx2_vnni_kernels();        // runs only where cpu_has_avx2_vnni()
const KernelTable &avx512_kernels();           // runs only where cpu_has_avx512()
const KernelTable &avx512_panels_kernels();    // the same
const KernelTable &avx512_panels32_kernels();  // runs only where cpu_has_avx512_bmi2()
const KernelTable &avx512_amx_kernels();       // runs only once cpu_has_avx512_amx() has said so
#elif defined(__aarch64__)
const KernelTable &neon_kernels();  // runs only where cpu_has_dotprod()
#endif

// The tier named `isa`, or for "auto" the best one that this machine runs. nullptr if there is none: `why_not` then
// says what was expected, or what this machine lacks.
const KernelTable *select_kernels(std::string_view isa, std::string *why_not);

// The tiers that this machine can run, the best first.
std::vector<const KernelTable *> runnable_kernels();

}  // namespace bonsai::cpu
