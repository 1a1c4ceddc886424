// Which instruction sets this machine can run, by CPUID and what the operating system saves, or by what Linux says.
#pragma once

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace bonsai::cpu {

#if defined(__x86_64__)
// What CPUID says of a leaf and its subleaf; zeros where the processor does not know it.
struct Cpuid {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

inline Cpuid cpuid(unsigned leaf, unsigned subleaf = 0) {
  Cpuid found;
  if (__get_cpuid_count(leaf, subleaf, &found.eax, &found.ebx, &found.ecx, &found.edx) == 0) return {};
  return found;
}

// AVX2, FMA and F16C: all that the avx2 tier uses. Clang 14 knows F16C and AVX-VNNI by no name. Whoever has AVX2 has an
// operating system that saves the registers of both.
inline bool cpu_has_avx2() {
  constexpr unsigned kF16c = 1u << 29;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && (cpuid(1).ecx & kF16c) != 0;
}

// AVX-VNNI, the 256-bit form of AVX-512's: all that the avx2-vnni tier uses beside AVX2.
inline bool cpu_has_avx2_vnni() {
  constexpr unsigned kAvxVnni = 1u << 4;
  return cpu_has_avx2() && cpuid(7).eax >= 1 && (cpuid(7, 1).eax & kAvxVnni) != 0;
}

// AVX-512 F, BW, DQ, VL and VNNI: all that the avx512 tier uses beside AVX2.
inline bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

// These and BMI2, whose rotation leaves a register as it is: all that the avx512-panels32 tier uses.
inline bool cpu_has_avx512_bmi2() { return cpu_has_avx512() && __builtin_cpu_supports("bmi2"); }

// Whether the processor has AMX-TILE and AMX-INT8 (Intel's Software Developer's Manual, CPUID leaf 7).
inline bool cpu_has_tiles() {
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;
  const unsigned edx = cpuid(7).edx;
  return (edx & kTile) != 0 && (edx & kInt8) != 0;
}

// These beside all that the avx512 tier uses. Asks Linux to let this process use the registers
// (Documentation/arch/x86/xstate.rst), which it may not before; threads that come later may, too.
inline bool cpu_has_avx512_amx() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return cpu_has_avx512() && cpu_has_tiles() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

inline bool cpu_is_intel() { return __builtin_cpu_is("intel"); }

// Intel's Sapphire and Emerald Rapids (Software Developer's Manual, volume 4, "CPUID signature values": family 6).
inline bool cpu_is_sapphire_or_emerald_rapids() {
  constexpr unsigned kSapphireRapids = 0x8F, kEmeraldRapids = 0xCF;
  if (!cpu_is_intel()) return false;
  const unsigned eax = cpuid(1).eax, model = (eax >> 4 & 0xF) | (eax >> 12 & 0xF0);
  return (eax >> 8 & 0xF) == 6 && (model == kSapphireRapids || model == kEmeraldRapids);
}

// AMD's Zen 5 or what came after it: family 1Ah (AMD64 Architecture Programmer's Manual, CPUID Fn0000_0001_EAX).
inline bool cpu_is_zen5_or_later() {
  constexpr unsigned kZen5 = 0x1A;
  if (!__builtin_cpu_is("amd")) return false;
  const unsigned eax = cpuid(1).eax;
  const unsigned base = eax >> 8 & 0xF, extended = eax >> 20 & 0xFF;
  return base == 0xF && base + extended >= kZen5;
}
#elif defined(__aarch64__)
// Dot products of bytes (FEAT_DotProd): all that the neon tier uses beside what every AArch64 has.
inline bool cpu_has_dotprod() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
#endif

}  // namespace bonsai::cpu
