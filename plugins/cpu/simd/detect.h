// Which instruction sets this machine can run, by CPUID and what the operating system saves, or by what Linux says.
#pragma once

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace bonsai::cpu {

#if defined(__x86_64__)
// AVX2, FMA and F16C: all that the avx2 tier uses.
inline bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}

// AVX-VNNI, the 256-bit form of AVX-512's: all that the avx2-vnni tier uses beside AVX2.
inline bool cpu_has_avx2_vnni() { return cpu_has_avx2() && __builtin_cpu_supports("avxvnni"); }

// AVX-512 F, BW, DQ, VL and VNNI: all that the avx512 tier uses beside AVX2.
inline bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
// Dot products of bytes (FEAT_DotProd): all that the neon tier uses beside what every AArch64 has.
inline bool cpu_has_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#endif

}  // namespace bonsai::cpu
