// Runs a fuzz target on a fixed sequence of mutated seeds: the same inputs on every machine and in every run.
//
//   NAME [--first I] [--count N]   runs inputs I to I + N - 1; one that failed is rerun alone with --first I --count 1
//   NAME --write-corpus DIR        writes the seeds as files, for libFuzzer to start from
#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_target.h"

namespace {

using Input = std::vector<uint8_t>;

// Marsaglia's xorshift64* (doi:10.18637/jss.v008.i14).
class Random {
 public:
  explicit Random(uint64_t seed) : state_((seed + 1) * 0x9E3779B97F4A7C15u) {
    for (int i = 0; i < 8; ++i) next();
  }
  uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  // 0 to bound - 1.
  size_t below(size_t bound) { return static_cast<size_t>((next() >> 11) % bound); }

 private:
  uint64_t state_;
};

// What counts and lengths break on.
constexpr uint64_t kInteresting[] = {0,          1,          2,         3,          4,          7,
                                     8,          9,          13,        16,         31,         32,
                                     42,         64,         127,       128,        142,        255,
                                     256,        65535,      65536,     0x7FFFFFFF, 0x80000000, 0xFFFFFFFF,
                                     1ull << 32, 1ull << 60, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};

void overwrite_with_number(Input &input, Random &random) {
  const uint64_t number = kInteresting[random.below(std::size(kInteresting))];
  const size_t at = random.below(input.size());
  const size_t bytes = std::min<size_t>(size_t{1} << random.below(4), input.size() - at);
  std::memcpy(input.data() + at, &number, bytes);
}

// Inserts a piece of `from` (which may be a copy of the input itself) somewhere.
void splice(Input &input, Random &random, const Input &from) {
  if (from.empty()) return;
  const size_t begin = random.below(from.size());
  const size_t length = 1 + random.below(std::min<size_t>(from.size() - begin, 64));
  const Input piece(from.begin() + static_cast<ptrdiff_t>(begin),
                    from.begin() + static_cast<ptrdiff_t>(begin + length));
  const size_t at = random.below(input.size() + 1);
  input.insert(input.begin() + static_cast<ptrdiff_t>(at), piece.begin(), piece.end());
}

void erase_piece(Input &input, Random &random) {
  const size_t at = random.below(input.size());
  const size_t length = 1 + random.below(std::min<size_t>(input.size() - at, 64));
  const auto begin = input.begin() + static_cast<ptrdiff_t>(at);
  input.erase(begin, begin + static_cast<ptrdiff_t>(length));
}

void mutate(Input &input, Random &random, const std::vector<Input> &seeds) {
  if (input.empty()) return splice(input, random, seeds[random.below(seeds.size())]);
  switch (random.below(7)) {
    case 0:
      input[random.below(input.size())] ^= static_cast<uint8_t>(1u << random.below(8));
      return;
    case 1:
      input[random.below(input.size())] = static_cast<uint8_t>(random.next() >> 56);
      return;
    case 2:
    case 3:
      return overwrite_with_number(input, random);
    case 4:
      return splice(input, random, seeds[random.below(seeds.size())]);
    case 5:
      return erase_piece(input, random);
    case 6:
      return input.resize(random.below(input.size() + 1));
  }
}

Input make_input(uint64_t index, const std::vector<Input> &seeds) {
  Random random(index);
  Input input = seeds[random.below(seeds.size())];
  const size_t n_mutations = random.below(6);
  for (size_t i = 0; i < n_mutations; ++i) mutate(input, random, seeds);
  return input;
}

int write_corpus(const std::string &directory) {
  const std::vector<Input> seeds = fuzz_seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file(directory + "/seed-" + std::to_string(i), std::ios::binary);
    file.write(reinterpret_cast<const char *>(seeds[i].data()), static_cast<std::streamsize>(seeds[i].size()));
    if (!file.flush()) return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

// The input that runs now, for the report of a sanitizer or of abort(): those call back without arguments.
uint64_t current_input = 0;

void report_input() {
  std::fprintf(stderr, "\ninput %llu failed; rerun it with --first %llu --count 1\n",
               static_cast<unsigned long long>(current_input), static_cast<unsigned long long>(current_input));
}

int run(uint64_t first, uint64_t count) {
  __sanitizer_set_death_callback(report_input);
  const std::vector<Input> seeds = fuzz_seeds();
  for (current_input = first; current_input < first + count; ++current_input) {
    // A fresh copy, as long as the input: a read past its end is one that AddressSanitizer sees.
    const Input input = make_input(current_input, seeds);
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(count));
  return EXIT_SUCCESS;
}

}  // namespace

// An allocation on the word of a bad input is a failure; abort() is reported like a sanitizer's finding.
extern "C" __attribute__((visibility("default"))) const char *__asan_default_options() {
  return "max_allocation_size_mb=64:handle_abort=1";
}

int main(int argc, char **argv) {
  uint64_t first = 0;
  uint64_t count = 1000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--write-corpus") return write_corpus(argv[i + 1]);
    if (option == "--first") first = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--count") count = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return run(first, count);
}
