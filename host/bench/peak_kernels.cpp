// The loops of peak.h. Each is assembly from its label to its branch: a compiler would see that the sums can be had
// without multiplying.
#include <array>
#include <cstring>

#include "host/bench/peak.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

// One line of assembly for each sum. Processors have up to 10 products under way (2 units, 5 cycles), with NEON 16
// (4 units, 4 cycles); of AVX2's 16 registers, 12 leave room for the operands.
#define BONSAI_12_LINES(line) \
  line(0) line(1) line(2) line(3) line(4) line(5) line(6) line(7) line(8) line(9) line(10) line(11)
#define BONSAI_16_LINES(line) BONSAI_12_LINES(line) line(12) line(13) line(14) line(15)

// The sums as operands 0 to 11 or 15.
#define BONSAI_12_SUMS(kind)                                                                               \
  kind(sums[0]), kind(sums[1]), kind(sums[2]), kind(sums[3]), kind(sums[4]), kind(sums[5]), kind(sums[6]), \
      kind(sums[7]), kind(sums[8]), kind(sums[9]), kind(sums[10]), kind(sums[11])
#define BONSAI_16_SUMS(kind) BONSAI_12_SUMS(kind), kind(sums[12]), kind(sums[13]), kind(sums[14]), kind(sums[15])

namespace bonsai::bench {
namespace {

struct Candidate {
  Arithmetic arithmetic;
  PeakKernel kernel;
  bool (*runs)();
};

// What all lanes of all sums add up to. Lanes are whole numbers, also as floats.
template <class Lane, class Vector, size_t kSums>
uint64_t total(const Vector (&sums)[kSums]) {
  std::array<Lane, kSums *(sizeof(Vector) / sizeof(Lane))> lanes;
  std::memcpy(lanes.data(), &sums, sizeof sums);
  uint64_t total = 0;
  for (const Lane lane : lanes) total += static_cast<uint64_t>(lane);
  return total;
}

#if defined(__x86_64__)

// In AT&T's order: the sum comes last. Operand 12 counts iterations, 13 holds ones.
#define BONSAI_X86_LOOP(line) "1:\n\t" BONSAI_12_LINES(line) "dec %12\n\tjnz 1b"

[[gnu::target("avx512f")]] uint64_t int8_avx512(uint64_t iterations) {
  const __m512i ones = _mm512_set1_epi32(0x01010101);
  __m512i sums[12] = {};
#define BONSAI_LINE(sum) "vpdpbusd %13, %13, %" #sum "\n\t"
  asm volatile(BONSAI_X86_LOOP(BONSAI_LINE) : BONSAI_12_SUMS("+v"), "+r"(iterations) : "v"(ones) : "cc");
#undef BONSAI_LINE
  return total<uint32_t>(sums);
}

[[gnu::target("avx2")]] uint64_t int8_avx_vnni(uint64_t iterations) {
  const __m256i ones = _mm256_set1_epi8(1);
  __m256i sums[12] = {};
#define BONSAI_LINE(sum) "%{vex%} vpdpbusd %13, %13, %" #sum "\n\t"
  asm volatile(BONSAI_X86_LOOP(BONSAI_LINE) : BONSAI_12_SUMS("+x"), "+r"(iterations) : "x"(ones) : "cc");
#undef BONSAI_LINE
  return total<uint32_t>(sums);
}

// Pairs of products as 16 bits, pairs of these as 32, and their sum.
[[gnu::target("avx2")]] uint64_t int8_avx2(uint64_t iterations) {
  const __m256i ones = _mm256_set1_epi8(1), wide_ones = _mm256_set1_epi16(1);
  __m256i sums[12] = {};
#define BONSAI_LINE(sum)               \
  "vpmaddubsw %13, %13, %%ymm15\n\t"   \
  "vpmaddwd %14, %%ymm15, %%ymm15\n\t" \
  "vpaddd %%ymm15, %" #sum ", %" #sum "\n\t"
  asm volatile(BONSAI_X86_LOOP(BONSAI_LINE)
               : BONSAI_12_SUMS("+x"), "+r"(iterations)
               : "x"(ones), "x"(wide_ones)
               : "cc", "xmm15");
#undef BONSAI_LINE
  return total<uint32_t>(sums);
}

#define BONSAI_LINE(sum) "vfmadd231ps %13, %13, %" #sum "\n\t"
[[gnu::target("avx512f")]] uint64_t fma_avx512(uint64_t iterations) {
  const __m512 ones = _mm512_set1_ps(1);
  __m512 sums[12] = {};
  asm volatile(BONSAI_X86_LOOP(BONSAI_LINE) : BONSAI_12_SUMS("+v"), "+r"(iterations) : "v"(ones) : "cc");
  return total<float>(sums);
}

[[gnu::target("avx2")]] uint64_t fma_avx2(uint64_t iterations) {
  const __m256 ones = _mm256_set1_ps(1);
  __m256 sums[12] = {};
  asm volatile(BONSAI_X86_LOOP(BONSAI_LINE) : BONSAI_12_SUMS("+x"), "+r"(iterations) : "x"(ones) : "cc");
  return total<float>(sums);
}
#undef BONSAI_LINE

bool has_avx512() { return __builtin_cpu_supports("avx512f"); }
bool has_avx512_vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
bool has_avx2() { return __builtin_cpu_supports("avx2"); }
bool has_fma() { return has_avx2() && __builtin_cpu_supports("fma"); }

// By CPUID, leaf 7, subleaf 1: not every compiler knows the name. AVX2 implies that the system saves the registers.
bool has_avx_vnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax >> 4 & 1) != 0;
}

constexpr Candidate kCandidates[] = {
    {Arithmetic::kInt8, {"AVX-512 VNNI", int8_avx512}, has_avx512_vnni},
    {Arithmetic::kInt8, {"AVX-VNNI", int8_avx_vnni}, has_avx_vnni},
    {Arithmetic::kInt8, {"AVX2", int8_avx2}, has_avx2},
    {Arithmetic::kFma, {"AVX-512", fma_avx512}, has_avx512},
    {Arithmetic::kFma, {"AVX2", fma_avx2}, has_fma},
};

#elif defined(__aarch64__)

// 16 sums do not fit in GCC's 30 operands if each is also an input: they are cleared here. Operand 16 counts
// iterations, 17 holds ones.
#define BONSAI_CLEAR(sum) "movi %" #sum ".16b, #0\n\t"
#define BONSAI_NEON_LOOP(line) \
  BONSAI_16_LINES(BONSAI_CLEAR) "1:\n\t" BONSAI_16_LINES(line) "subs %16, %16, #1\n\tb.ne 1b"

[[gnu::target("arch=armv8.2-a+dotprod")]] uint64_t int8_dotprod(uint64_t iterations) {
  const int8x16_t ones = vdupq_n_s8(1);
  int32x4_t sums[16];
#define BONSAI_LINE(sum) "sdot %" #sum ".4s, %17.16b, %17.16b\n\t"
  asm volatile(BONSAI_NEON_LOOP(BONSAI_LINE) : BONSAI_16_SUMS("=&w"), "+r"(iterations) : "w"(ones) : "cc");
#undef BONSAI_LINE
  return total<uint32_t>(sums);
}

uint64_t fma_neon(uint64_t iterations) {
  const float32x4_t ones = vdupq_n_f32(1);
  float32x4_t sums[16];
#define BONSAI_LINE(sum) "fmla %" #sum ".4s, %17.4s, %17.4s\n\t"
  asm volatile(BONSAI_NEON_LOOP(BONSAI_LINE) : BONSAI_16_SUMS("=&w"), "+r"(iterations) : "w"(ones) : "cc");
#undef BONSAI_LINE
  return total<float>(sums);
}

bool has_dotprod() { return (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_neon() { return true; }

constexpr Candidate kCandidates[] = {
    {Arithmetic::kInt8, {"NEON dotprod", int8_dotprod}, has_dotprod},
    {Arithmetic::kFma, {"NEON", fma_neon}, has_neon},
};

#else

constexpr std::array<Candidate, 0> kCandidates = {};

#endif

}  // namespace

std::vector<PeakKernel> runnable_peak_kernels(Arithmetic arithmetic) {
  std::vector<PeakKernel> kernels;
  for (const Candidate &candidate : kCandidates) {
    if (candidate.arithmetic == arithmetic && candidate.runs()) kernels.push_back(candidate.kernel);
  }
  return kernels;
}

}  // namespace bonsai::bench
