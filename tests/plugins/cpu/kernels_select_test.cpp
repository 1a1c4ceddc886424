// Choosing a tier.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {
namespace {

TEST(SelectKernels, TakesTheBestTierThatRunsForAuto) {
  std::string why_not;
  EXPECT_EQ(select_kernels("auto", &why_not), runnable_kernels().front());
  EXPECT_EQ(why_not, "");
}

TEST(SelectKernels, FindsEveryRunnableTierByItsName) {
  for (const KernelTable *table : runnable_kernels()) {
    std::string why_not;
    EXPECT_EQ(select_kernels(table->name, &why_not), table);
  }
}

TEST(SelectKernels, AlwaysHasThePortableTier) {
  std::string why_not;
  EXPECT_EQ(select_kernels("portable", &why_not), &portable_kernels());
}

// By what the system says of the processor.
TEST(SelectKernels, AsksForWeightsAsTheProcessorLikes) {
  constexpr int kZen5 = 26;
  std::ifstream file("/proc/cpuinfo");
  bool is_amd = false, is_intel = false, has_tiles = false, has_avx512 = false;
  int family = 0, model = 0;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::string value = line.substr(std::min(line.size(), line.find(':') + 1));
    if (line.starts_with("vendor_id")) is_amd = value == " AuthenticAMD", is_intel = value == " GenuineIntel";
    if (line.starts_with("cpu family")) family = std::atoi(value.c_str());
    if (line.starts_with("model\t")) model = std::atoi(value.c_str());
    const auto has_flag = [&](const char *flag) { return value.find(flag) != std::string::npos; };
    if (!line.starts_with("flags")) continue;
    has_tiles = has_flag(" amx_int8");
    has_avx512 = has_flag(" avx512_vnni") && has_flag(" bmi2");
  }
  EXPECT_EQ(best_prefetch() == Prefetch::kFirstLevel, is_amd && family >= kZen5);
  if (is_amd && family >= kZen5 && has_avx512) {
    std::string why_not;
    EXPECT_STREQ(select_kernels("auto", &why_not)->name, "avx512-panels32");
  }
  constexpr int kSapphireRapids = 143, kEmeraldRapids = 207;
  const bool is_one_of_both = is_intel && family == 6 && (model == kSapphireRapids || model == kEmeraldRapids);
  EXPECT_EQ(best_prefetch() == Prefetch::kSecondLevelTwoStreams, is_one_of_both);
  EXPECT_EQ(best_prefetch() == Prefetch::kSecondLevelLate, has_tiles && !is_one_of_both);
}

TEST(SelectKernels, NamesTheTiersWhenAskedForAnother) {
  std::string why_not;
  EXPECT_EQ(select_kernels("sse9", &why_not), nullptr);
#if defined(__x86_64__)
  EXPECT_EQ(why_not,
            "expected one of auto, avx512-amx, avx512-panels32, avx512-panels, avx512, avx2-vnni, avx2, portable");
#elif defined(__aarch64__)
  EXPECT_EQ(why_not, "expected one of auto, neon, portable");
#else
  EXPECT_EQ(why_not, "expected one of auto, portable");
#endif
}

#if defined(__x86_64__)
TEST(SelectKernels, SaysThatTheMachineLacksAvx512) {
  if (cpu_has_avx512()) GTEST_SKIP() << "this machine has AVX-512";
  std::string why_not;
  EXPECT_EQ(select_kernels("avx512", &why_not), nullptr);
  EXPECT_EQ(why_not, "'avx512' needs AVX-512 F, BW, DQ, VL and VNNI, not all of which this machine has");
}

TEST(SelectKernels, SaysThatTheMachineLacksAvxVnni) {
  if (cpu_has_avx2_vnni()) GTEST_SKIP() << "this machine has AVX-VNNI";
  std::string why_not;
  EXPECT_EQ(select_kernels("avx2-vnni", &why_not), nullptr);
  EXPECT_EQ(why_not, "'avx2-vnni' needs AVX-VNNI, AVX2, FMA and F16C, not all of which this machine has");
}

TEST(SelectKernels, SaysThatTheMachineLacksAmx) {
  if (cpu_has_avx512_amx()) GTEST_SKIP() << "this machine has AMX-INT8";
  std::string why_not;
  EXPECT_EQ(select_kernels("avx512-amx", &why_not), nullptr);
  EXPECT_EQ(why_not,
            "'avx512-amx' needs AVX-512 F, BW, DQ, VL and VNNI, and AMX-INT8, not all of which this machine has");
}

TEST(SelectKernels, SaysThatTheMachineLacksBmi2) {
  if (cpu_has_avx512_bmi2()) GTEST_SKIP() << "this machine has AVX-512 and BMI2";
  std::string why_not;
  EXPECT_EQ(select_kernels("avx512-panels32", &why_not), nullptr);
  EXPECT_EQ(why_not,
            "'avx512-panels32' needs AVX-512 F, BW, DQ, VL and VNNI, and BMI2, not all of which this machine has");
}

TEST(SelectKernels, NoTierIsAnotherInDisguise) {
  const KernelTable *tables[] = {
      &portable_kernels(),        &avx2_kernels(),
      &avx2_vnni_kernels(),       &avx2_vnni_emulated_kernels(),
      &avx512_kernels(),          &avx512_emulated_kernels(),
      &avx512_amx_kernels(),      &avx512_amx_emulated_kernels(),
      &avx512_panels_kernels(),   &avx512_panels_emulated_kernels(),
      &avx512_panels32_kernels(), &avx512_panels32_emulated_kernels(),
  };
  const auto have_other_rows = [](std::string_view a, std::string_view b) {  // but for products, one may be the other
    return !a.starts_with("avx512") || !b.starts_with("avx512") || a.ends_with(")") != b.ends_with(")");
  };
  for (const KernelTable *a : tables) {
    for (const KernelTable *b : tables) {
      if (a == b) continue;
      EXPECT_STRNE(a->name, b->name);
      EXPECT_NE(a->matmul, b->matmul) << a->name << " and " << b->name;
      if (have_other_rows(a->name, b->name)) {
        EXPECT_NE(a->quantize, b->quantize) << a->name << " and " << b->name;
      }
    }
  }
  EXPECT_NE(avx512_panels32_kernels().abreast.multiply, avx512_kernels().abreast.multiply);
  EXPECT_NE(avx512_panels32_emulated_kernels().abreast.multiply, avx512_emulated_kernels().abreast.multiply);
}

TEST(SelectKernels, MultiplyAbreastWhereThereAreVectorsForIt) {
  const auto takes = [](const KernelTable &kernels, quant::Format format, Packing packing) {
    return kernels.takes_abreast({.format = format, .packing = packing});
  };
  using quant::Format;
  for (const KernelTable *kernels :
       {&avx2_kernels(), &avx2_vnni_kernels(), &avx2_vnni_emulated_kernels(), &avx512_kernels(),
        &avx512_emulated_kernels(), &avx512_panels32_kernels(), &avx512_panels32_emulated_kernels()}) {
    EXPECT_NE(kernels->abreast.multiply, nullptr) << kernels->name;
    for (const Format format :
         {Format::kQ1_0_G128, Format::kTQ1_0_G128, Format::kTQ2_0_G128, Format::kTQ1_0, Format::kTQ2_0}) {
      EXPECT_TRUE(takes(*kernels, format, kernels->packing_of(format))) << kernels->name;
    }
    const bool has_panels = std::string_view(kernels->name).starts_with("avx512-panels");  // which are for the rest
    EXPECT_NE(takes(*kernels, Format::kQ2_0_G64, kernels->packing_of(Format::kQ2_0_G64)), has_panels) << kernels->name;
    for (const Format format : {Format::kTQ2_0_G128, Format::kTQ2_0, Format::kQ2_K, Format::kQ4_0, Format::kF16}) {
      EXPECT_FALSE(takes(*kernels, format, Packing::kUsual)) << kernels->name;
    }
  }
  // All codes but signs go through panels.
  for (const KernelTable *kernels : {&avx512_panels_kernels(), &avx512_panels_emulated_kernels()}) {
    EXPECT_TRUE(takes(*kernels, Format::kQ1_0_G128, kernels->packing_of(Format::kQ1_0_G128))) << kernels->name;
    for (const Format format : {Format::kTQ2_0_G128, Format::kTQ1_0, Format::kQ2_0_G64}) {
      EXPECT_FALSE(takes(*kernels, format, kernels->packing_of(format))) << kernels->name;
    }
  }
  for (const KernelTable *kernels : {&portable_kernels(), &avx512_amx_kernels(), &avx512_amx_emulated_kernels()}) {
    EXPECT_EQ(kernels->abreast.multiply, nullptr) << kernels->name;
    EXPECT_FALSE(takes(*kernels, Format::kQ1_0_G128, kernels->packing_of(Format::kQ1_0_G128))) << kernels->name;
  }
}
#endif

}  // namespace
}  // namespace bonsai::cpu
