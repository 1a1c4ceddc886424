// A device that fails while a text is being written: the CPU goes on with it, and the driver gets everything back.
#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/plugins/cuda/fake_driver/fake_support.h"

namespace bonsai::test {
namespace {

using fake::control;

constexpr int kOutOfMemory = 2, kIllegalAddress = 700, kEccError = 214;  // cuda.h's numbers
constexpr uint32_t kTokens = 12;

// Small enough for the emulator; float weights, so that both backends agree on the greedy text.
TinyModel tiny() {
  TinyModel tiny;
  tiny.format = quant::Format::kF16;
  tiny.layers = 1;
  tiny.hidden = 64;
  tiny.ffn = 64;
  tiny.heads = 2;
  tiny.kv_heads = 1;
  tiny.context = 64;
  return tiny;
}

EngineOptions on(const std::string &backend, const std::string &model, std::vector<std::string> *log = nullptr) {
  EngineOptions options;
  options.model = model;
  options.backend = backend;
  if (log) options.log = [log](LogLevel, std::string_view line) { log->emplace_back(line); };
  return options;
}

GenerateOptions greedy() {
  GenerateOptions options;
  options.max_tokens = kTokens;
  options.sampling.temperature = 0;
  options.ignore_eos = true;
  return options;
}

class CudaFailOver : public testing::Test {
 protected:
  CudaFailOver() : file(tiny()) {
    const Engine cpu = Engine::load(on(BONSAI_CPU_PLUGIN, file.path()));
    expected = cpu.generate("the ", greedy()).tokens;
  }
  void SetUp() override { control().reset(); }
  void TearDown() override {
    fake::expect_nothing_alive();
    EXPECT_EQ(control().misuse(), "");
    control().reset();
  }

  // Generates, and calls `fail` when so many tokens' text is there.
  Generation generate(const Engine &engine, uint32_t after, const std::function<void()> &fail) const {
    uint32_t pieces = 0;
    return engine.generate("the ", greedy(), [&](std::string_view) {
      if (++pieces == after) fail();
      return true;
    });
  }

  const TinyModelFile file;
  std::vector<int32_t> expected;
};

TEST_F(CudaFailOver, WithoutAFailureTheTextIsTheCpus) {
  const Engine engine = Engine::load(on(BONSAI_CUDA_PLUGIN, file.path()));
  EXPECT_EQ(engine.backend().name, "cuda");
  const Generation found = engine.generate("the ", greedy());
  EXPECT_EQ(found.tokens, expected);
  EXPECT_EQ(found.stats.failed_over, "");
}

TEST_F(CudaFailOver, ALostDeviceLeavesTheTextAsItWouldHaveBeen) {
  for (const int result : {kIllegalAddress, kEccError}) {
    control().reset();
    const Engine engine = Engine::load(on(BONSAI_CUDA_PLUGIN, file.path()));
    const Generation found = generate(engine, 3, [&] { control().fail_work(1, result); });
    EXPECT_EQ(found.tokens, expected);
    EXPECT_NE(found.stats.failed_over, "") << result;
    EXPECT_EQ(engine.backend().name, "cpu");
  }
}

TEST_F(CudaFailOver, ACallThatFailsOnceToo) {
  const Engine engine = Engine::load(on(BONSAI_CUDA_PLUGIN, file.path()));
  const Generation found = generate(engine, 4, [] { control().fail_call(2, kOutOfMemory); });
  EXPECT_EQ(found.tokens, expected);
  EXPECT_NE(found.stats.failed_over, "");
}

// Threads that compile kernels log side by side.
TEST_F(CudaFailOver, LinesOfTheLogComeOneAtATime) {
  std::atomic<int> n_within = 0, n_lines = 0, n_beside = 0;
  EngineOptions options = on(BONSAI_CUDA_PLUGIN, file.path());
  options.log = [&](LogLevel, std::string_view) {
    n_beside += n_within++ > 0;
    ++n_lines;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --n_within;
  };
  const Engine engine = Engine::load(options);
  EXPECT_GT(n_lines, 2);
  EXPECT_EQ(n_beside, 0);
}

TEST_F(CudaFailOver, ADeviceThatIsTooSmallIsPassedOverWithAReason) {
  for (uint64_t call = 20; call <= 200; call += 20) {  // somewhere in opening, uploading and making a session
    control().reset();
    control().fail_call(call, kOutOfMemory);
    std::vector<std::string> log;
    const Engine engine = Engine::load(on(BONSAI_CUDA_PLUGIN, file.path(), &log));
    EXPECT_EQ(engine.generate("the ", greedy()).tokens, expected) << call;
  }
}

}  // namespace
}  // namespace bonsai::test
