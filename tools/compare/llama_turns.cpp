// Times llama.cpp and Bonsai in turns within one process: see README.md beside this. Not a part of the build.
//
//   llama_turns MODEL THREADS PROMPT DECODED ROUNDS
//
// Where a machine's speed changes from second to second, two programs that run one after the other measure the machine.
// Here each round has both read a prompt of PROMPT tokens and decode DECODED more right after each other, and what
// counts are the ratios of each round.
#include <bonsai/bonsai.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "llama_turns: %s\n", what);
  std::exit(1);
}

// Tokens per second.
struct Speed {
  double prompt, decode;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return (numbers[(numbers.size() - 1) / 2] + numbers[numbers.size() / 2]) / 2;
}

// What is run: tokens that any vocabulary has.
struct Plan {
  const char *model;
  int threads, prompt, decoded;

  std::vector<int32_t> tokens() const {
    std::vector<int32_t> all(static_cast<size_t>(prompt));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i * 7919 % 200);
    return all;
  }
};

// Without sampling, as llama-bench does it.
class Llama {
 public:
  explicit Llama(const Plan &plan) : plan_(plan), tokens_(plan.tokens()) {
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    model_.reset(llama_model_load_from_file(plan.model, llama_model_default_params()));
    if (!model_) fail("llama.cpp cannot load the model");
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<uint32_t>(plan.prompt + plan.decoded);
    params.n_threads = params.n_threads_batch = plan.threads;
    context_.reset(llama_init_from_model(model_.get(), params));
    if (!context_) fail("llama.cpp cannot make a context");
  }

  Speed run() {
    llama_memory_clear(llama_get_memory(context_.get()), true);
    const double prompt = time(tokens_.data(), plan_.prompt);
    double decode = 0;
    for (int i = 0; i < plan_.decoded; ++i) decode += time(tokens_.data(), 1);
    return {plan_.prompt / prompt, plan_.decoded / decode};
  }

 private:
  struct Free {
    void operator()(llama_model *model) const { llama_model_free(model); }
    void operator()(llama_context *context) const { llama_free(context); }
  };

  double time(int32_t *tokens, int n) {
    const auto begin = std::chrono::steady_clock::now();
    if (llama_decode(context_.get(), llama_batch_get_one(tokens, n)) != 0) fail("llama_decode failed");
    if (!llama_get_logits_ith(context_.get(), -1)) fail("llama.cpp has no logits");
    return seconds_since(begin);
  }

  Plan plan_;
  std::vector<int32_t> tokens_;
  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<llama_context, Free> context_;
};

// With the choice of a token behind each pass.
class Bonsai {
 public:
  explicit Bonsai(const Plan &plan) : plan_(plan), tokens_(plan.tokens()) {
    bonsai_engine_options options;
    bonsai_engine_options_init(&options, sizeof options);
    options.model = plan.model;
    options.backend = "cpu";
    options.backend_strict = 1;
    options.threads = static_cast<uint32_t>(plan.threads);
    options.context = static_cast<uint32_t>(plan.prompt + plan.decoded + 1);
    check(bonsai_engine_load(&options, &engine_, &failure_));
    check(bonsai_session_new(engine_, &session_, &failure_));
  }
  Bonsai(const Bonsai &) = delete;
  Bonsai &operator=(const Bonsai &) = delete;
  ~Bonsai() {
    bonsai_session_free(session_);
    bonsai_engine_free(engine_);
  }

  Speed run() {
    bonsai_generate_options options;
    bonsai_generate_options_init(&options, sizeof options, "greedy");
    options.max_tokens = static_cast<uint32_t>(plan_.decoded + 1);
    options.ignore_eos = 1;
    const bonsai_generation *generation = nullptr;
    check(bonsai_session_truncate(session_, 0, &failure_));
    check(bonsai_session_append_tokens(session_, tokens_.data(), tokens_.size(), &failure_));
    check(bonsai_session_generate(session_, &options, nullptr, nullptr, &generation, &failure_));
    const Speed speed = {plan_.prompt / generation->prompt_seconds,
                         static_cast<double>(generation->decode_steps) / generation->decode_seconds};
    bonsai_generation_free(generation);
    return speed;
  }

 private:
  void check(bonsai_outcome outcome) const {
    if (outcome != BONSAI_SUCCESS) fail(failure_.message);
  }

  Plan plan_;
  std::vector<int32_t> tokens_;
  bonsai_failure failure_ = {.struct_size = sizeof failure_, .outcome = BONSAI_SUCCESS, .message = ""};
  bonsai_engine *engine_ = nullptr;
  bonsai_engine_session *session_ = nullptr;
};

// Threads of the one that ran last may still watch for work.
template <class Program>
Speed run_after_rest(Program &program) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return program.run();
}

void print(const char *what, double Speed::*speed, const std::vector<Speed> &llama, const std::vector<Speed> &bonsai) {
  std::vector<double> of_llama, of_bonsai, ratios;
  for (size_t i = 0; i < llama.size(); ++i) {
    of_llama.push_back(llama[i].*speed);
    of_bonsai.push_back(bonsai[i].*speed);
    ratios.push_back(of_bonsai.back() / of_llama.back());
  }
  std::sort(ratios.begin(), ratios.end());
  const auto quartile = [&](size_t i) { return ratios[(ratios.size() - 1) * i / 4]; };
  std::printf("%s: llama.cpp %.1f tokens/s, Bonsai %.1f, times %.2f (the middle half %.2f to %.2f)\n", what,
              median(of_llama), median(of_bonsai), median(ratios), quartile(1), quartile(3));
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 6) fail("expected MODEL THREADS PROMPT DECODED ROUNDS");
  const Plan plan = {argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4])};
  const int rounds = std::atoi(argv[5]);
  if (std::min({plan.threads, plan.prompt, plan.decoded, rounds}) < 1)
    fail("expected numbers above 0 for THREADS, PROMPT, DECODED and ROUNDS");
  Llama llama(plan);
  Bonsai bonsai(plan);
  llama.run();
  bonsai.run();
  std::vector<Speed> of_llama, of_bonsai;
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) of_llama.push_back(run_after_rest(llama));
    of_bonsai.push_back(run_after_rest(bonsai));
    if (round % 2 == 1) of_llama.push_back(run_after_rest(llama));
  }
  print("prompts", &Speed::prompt, of_llama, of_bonsai);
  print("decoding", &Speed::decode, of_llama, of_bonsai);
}
