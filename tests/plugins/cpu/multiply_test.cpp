// Products over stacked matrices of mixed formats: handed out in pieces, they are what they are in one go.
#include "plugins/cpu/matmul.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {
namespace {

using quant::Format;

constexpr uint64_t kColumns = 256;

// Collects what it is given, and counts how often it was given each output.
class Collector final : public ProductSink {
 public:
  Collector(uint32_t n, uint64_t outputs, uint64_t pieces)
      : y(n * outputs), times(n * outputs), index_of(outputs), outputs_(outputs), pieces_(pieces) {}

  void take(int, const ProductPiece &piece, const Results &results) override {
    const std::lock_guard lock(mutex_);
    EXPECT_LT(piece.index, pieces_);
    EXPECT_LE(piece.outputs, kPieceRows);
    for (uint32_t i = 0; i < results.n; ++i) {
      for (uint64_t j = 0; j < piece.outputs; ++j) {
        const uint64_t at = (results.first + i) * outputs_ + piece.first_output + j;
        y[at] = results.y[i * results.stride + j];
        ++times[at];
        index_of[piece.first_output + j] = piece.index;
      }
    }
  }

  std::vector<float> y;
  std::vector<int> times;
  std::vector<uint64_t> index_of;

 private:
  uint64_t outputs_, pieces_;
  std::mutex mutex_;
};

TEST(Multiply, GivesTheSameInPiecesWithAnyThreads) {
  std::mt19937 random(11);
  const KernelTable &kernels = *runnable_kernels().front();
  Matrix signs(packed_for(kernels, Format::kQ1_0_G128), 1500, kColumns), bytes(Format::kQ8_0, 700, kColumns),
      floats(Format::kF16, 90, kColumns), more_signs(packed_for(kernels, Format::kQ1_0_G128), 40, kColumns),
      ternary(packed_for(kernels, Format::kTQ2_0_G128), 300, kColumns), with_code3(Format::kTQ2_0_G128, 60, kColumns);
  std::vector<PackedMatrix> packed;
  for (Matrix *matrix : {&signs, &bytes, &floats, &more_signs, &ternary, &with_code3}) {
    fill_random(*matrix, random);
    packed.push_back(matrix->pack());
  }
  // Rows that begin and end within tiles, too.
  const std::vector<MatrixRows> rows = {{&packed[0], 5, 1490, 0},   {&packed[1], 0, 700, 1485},
                                        {&packed[2], 17, 90, 2185}, {&packed[3], 0, 40, 2258},
                                        {&packed[4], 3, 300, 2298}, {&packed[5], 0, 60, 2595}};
  constexpr uint64_t kOutputs = 2655;
  for (const uint32_t n : {1u, 3u, 40u}) {
    const std::vector<float> x = random_vectors(n * kColumns, random);
    std::vector<float> expected(n * kOutputs);
    std::vector<uint64_t> indices;
    for (const int count : {1, 2, 3, 9}) {  // of nine, none makes tables of its own
      Threads threads(count);
      const ActivationRoom room = activation_room(n, kColumns, count, KernelNeeds(kernels));
      const auto scratch = aligned_bytes(room.bytes);
      Product product = {.rows = rows,
                         .columns = kColumns,
                         .n = n,
                         .x = x.data(),
                         .x_stride = kColumns,
                         .y = expected.data(),
                         .y_stride = kOutputs,
                         .activations = {scratch.get(), room.of_worker}};
      multiply(threads, kernels, product);
      Collector collector(n, kOutputs, count_pieces(rows));
      std::vector<float> y(static_cast<uint64_t>(count) * piece_elements(n));
      product.y = y.data();
      product.sink = &collector;
      product.next = rows;
      multiply(threads, kernels, product);
      EXPECT_TRUE(same_bytes(collector.y, expected)) << n << " vectors, " << count << " threads";
      EXPECT_TRUE(std::ranges::all_of(collector.times, [](int times) { return times == 1; }));
      EXPECT_TRUE(std::ranges::is_sorted(collector.index_of));
      EXPECT_EQ(collector.index_of.back() + 1, count_pieces(rows));
      if (count == 1) indices = collector.index_of;
      EXPECT_EQ(collector.index_of, indices) << "pieces depend on the number of threads";
    }
  }
}

// Kernels that want scratch, and note where it is that they are given some.
struct NotingScratch {
  static constexpr size_t kBytes = 4096;
  KernelTable kernels;
  static inline void (*matmul)(const MatmulArgs &args);
  static inline std::mutex mutex;
  static inline std::set<std::byte *> seen, in_use;
  static inline int shared;  // calls that were given what another one had

  explicit NotingScratch(const KernelTable &of) : kernels(of) {
    matmul = of.matmul;
    seen.clear();
    shared = 0;
    kernels.abreast = {};
    kernels.panels = {};
    kernels.scratch_bytes = kBytes;
    kernels.matmul = note;
  }

  static void note(const MatmulArgs &args) {
    {
      const std::lock_guard lock(mutex);
      seen.insert(args.scratch);
      shared += !in_use.insert(args.scratch).second;
    }
    MatmulArgs without = args;
    without.scratch = nullptr;
    matmul(without);
    const std::lock_guard lock(mutex);
    in_use.erase(args.scratch);
  }
};

TEST(Multiply, GivesEveryWorkerScratchOfItsOwn) {
  constexpr uint64_t kRows = 1536, kN = 32;  // so few that a worker takes its share at once
  std::mt19937 random(16);
  NotingScratch noting(*runnable_kernels().front());
  Matrix matrix(Format::kQ4_0, kRows, kColumns);
  fill_random(matrix, random);
  const PackedMatrix packed = matrix.pack();
  const std::vector<MatrixRows> rows = {{&packed, 0, kRows, 0}};
  const std::vector<float> x = random_vectors(kN * kColumns, random);
  std::vector<float> y(kN * kRows);
  Threads threads(4);
  const ActivationRoom room = activation_room(kN, kColumns, 4, KernelNeeds(noting.kernels));
  const auto scratch = aligned_bytes(room.bytes);
  multiply(threads, noting.kernels,
           {.rows = rows,
            .columns = kColumns,
            .n = kN,
            .x = x.data(),
            .x_stride = kColumns,
            .y = y.data(),
            .y_stride = kRows,
            .activations = room.in(scratch.get())});
  EXPECT_EQ(NotingScratch::seen.size(), 4u);
  EXPECT_EQ(NotingScratch::shared, 0);
  for (std::byte *place : NotingScratch::seen) {
    ASSERT_NE(place, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % 64, 0u);
    EXPECT_GE(place, scratch.get() + activation_room(kN, kColumns, 4).bytes);
    EXPECT_LE(place + NotingScratch::kBytes, scratch.get() + room.bytes);
  }
}

// A tier's kernels, which note the formats that are multiplied from panels.
struct NotingPanels {
  KernelTable kernels;
  static inline void (*matmul)(const MatmulArgs &args);
  static inline std::mutex mutex;
  static inline std::set<Format> seen;

  explicit NotingPanels(const KernelTable &of) : kernels(of) {
    matmul = of.matmul;
    seen.clear();
    kernels.abreast = {};
    kernels.matmul = note;
  }

  static void note(const MatmulArgs &args) {
    if (args.panels) {
      const std::lock_guard lock(mutex);
      seen.insert(args.matrix->format);
    }
    matmul(args);
  }
};

// Matrices that take the same activations, some of them from different panels, and others.
TEST(Multiply, SharesPanelsOfEveryKind) {
  constexpr uint64_t kWide = 2304, kRows = 70;  // more columns than are multiplied at a time
  constexpr uint64_t kStride = kWide + 24;
  constexpr Format kFormats[] = {Format::kQ4_K, Format::kQ6_K,    Format::kQ4_0,   Format::kTQ2_0,     Format::kF16,
                                 Format::kQ4_K, Format::kQ5_K,    Format::kQ5_0,   Format::kQ1_0_G128, Format::kF32,
                                 Format::kBF16, Format::kF8_E4M3, Format::kF8_E5M2};
  std::mt19937 random(18);
  for (const KernelTable *tier : testable_kernels()) {
    if (!tier->panels.kind_of) continue;
    const NotingPanels noting(*tier);
    std::vector<Matrix> matrices;
    std::vector<PackedMatrix> packed;
    matrices.reserve(std::size(kFormats));
    packed.reserve(std::size(kFormats));
    std::vector<MatrixRows> rows;
    uint64_t outputs = 0;
    for (const Format format : kFormats) {
      fill_random(matrices.emplace_back(packed_for(noting.kernels, format), kRows, kWide), random);
      packed.push_back(matrices.back().pack());
      const uint64_t first = outputs % 32 == 0 ? 0 : 5;
      rows.push_back({&packed.back(), first, kRows, outputs});
      outputs += kRows - first;
    }
    for (const uint32_t n : {2u, 8u, 31u, 150u, 151u}) {
      std::set<Format> from_panels;
      for (const PackedMatrix &matrix : packed) {
        if (tier->panels.kind_of(matrix, n)) from_panels.insert(matrix.format);
      }
      std::vector<float> x = random_vectors(n * kStride, random);
      if (n == 151) {  // which kernels for FP8 leave to others, for one vector's sake
        x[140 * kStride + 3] = 0x1p100f;
        x[140 * kStride + kWide - 1] = 0x1p-149f;
      }
      std::vector<float> expected(n * outputs);
      for (const int count : {1, 3}) {
        SCOPED_TRACE(testing::Message() << tier->name << ", " << n << " vectors, " << count << " threads");
        Threads threads(count);
        const ActivationRoom room = activation_room(n, 4 * kWide, count, KernelNeeds(noting.kernels));
        const auto scratch = aligned_bytes(room.bytes);
        Product product = {.rows = rows,
                           .columns = kWide,
                           .n = n,
                           .x = x.data(),
                           .x_stride = kStride,
                           .y = expected.data(),
                           .y_stride = outputs,
                           .activations = {scratch.get(), room.of_worker}};
        if (count == 1) multiply(threads, noting.kernels, product);
        EXPECT_TRUE(NotingPanels::seen.empty()) << "without room for them";
        std::vector<float> y(n * outputs), again(n * outputs);
        product.y = y.data();
        product.activations = room.in(scratch.get());
        multiply(threads, noting.kernels, product);
        EXPECT_TRUE(same_bytes(y, expected));
        EXPECT_EQ(NotingPanels::seen, from_panels);
        NotingPanels::seen.clear();

        // Room for the first of the kinds that super-blocks have, but not for the others.
        const PanelKind *kind = tier->panels.kind_of(packed[0], n);
        if (!kind) continue;
        product.activations.panels_bytes = panels_bytes(*kind, n, kWide);
        product.y = again.data();
        multiply(threads, noting.kernels, product);
        EXPECT_TRUE(same_bytes(again, expected));
        EXPECT_TRUE(NotingPanels::seen.contains(Format::kQ4_K));
        EXPECT_FALSE(NotingPanels::seen.contains(Format::kQ6_K));
        NotingPanels::seen.clear();
      }
    }
  }
}

// A tier's kernels that take few rows and vectors abreast, and count the products that they do so.
struct CountingAbreast {
  KernelTable kernels;
  static inline void (*multiply_abreast)(const AbreastArgs &args);
  static inline std::atomic<uint64_t> products;  // of a row and a vector

  explicit CountingAbreast(const KernelTable &of) : kernels(of) {
    multiply_abreast = of.abreast.multiply;
    products = 0;
    if (!multiply_abreast) return;
    kernels.abreast.multiply = count;
    kernels.abreast.fewest_vectors = 20;
    kernels.abreast.fewest_rows = 16;
  }

  static void count(const AbreastArgs &args) {
    for (const AbreastRows &rows : args.rows) products += args.n * (rows.last_row - rows.first_row);
    multiply_abreast(args);
  }
};

// More rows than are kept at a time (of signs only where it takes long), ranges that begin and end within tiles, more
// matrices than are multiplied together, and one of a format that is not taken.
TEST(Multiply, GivesTheSameBytesAbreast) {
  std::mt19937 random(14);
  for (const KernelTable *tier : testable_kernels()) {
    if (!tier->abreast.multiply) continue;
    const bool is_emulated = std::string_view(tier->name).ends_with("(emulated)");
    const uint64_t more = is_emulated ? 170 : 930, longer = is_emulated ? 150 : 1070;
    CountingAbreast counting(*tier);
    const KernelTable &kernels = counting.kernels;
    Matrix signs(packed_for(kernels, Format::kQ1_0_G128), 2300, kColumns), bytes(Format::kQ8_0, 40, kColumns),
        more_signs(packed_for(kernels, Format::kQ1_0_G128), 300, kColumns),
        ternary(packed_for(kernels, Format::kTQ2_0_G128), 150, kColumns),
        more_ternary(packed_for(kernels, Format::kTQ1_0_G128), more, kColumns),
        long_blocks(packed_for(kernels, Format::kTQ2_0), longer, kColumns),
        codes(packed_for(kernels, Format::kQ2_0_G64), 165, kColumns);
    std::vector<PackedMatrix> packed;
    for (Matrix *matrix : {&signs, &bytes, &more_signs, &ternary, &more_ternary, &long_blocks, &codes}) {
      fill_random(*matrix, random);
      packed.push_back(matrix->pack());
    }
    std::vector<MatrixRows> rows;
    uint64_t outputs = 0;
    const auto add_rows = [&](const PackedMatrix &matrix, uint64_t first, uint64_t last) {
      rows.push_back({&matrix, first, last, outputs});
      outputs += last - first;
    };
    add_rows(packed[0], 5, 2290);
    add_rows(packed[1], 0, 40);
    add_rows(packed[2], 17, 290);
    add_rows(packed[3], 3, 150);
    add_rows(packed[4], 0, more);
    for (uint64_t i = 0; i < 9; ++i) add_rows(packed[2], 20 * i, 20 * i + 20);
    add_rows(packed[5], 0, longer);
    add_rows(packed[6], 5, 165);
    const AbreastKernel &takes = kernels.abreast;
    const uint64_t abreast =
        2285 + 273 + 180 + (takes.takes_ternary ? 147 + more + longer : 0) + (takes.takes_q2_0_g64 ? 160 : 0);
    for (const uint32_t n : {19u, 20u, 32u, 70u, 97u, 149u}) {
      const uint32_t in_time = n % kAbreastVectors < 20 ? n / kAbreastVectors * kAbreastVectors : n;
      const std::vector<float> x = random_vectors(n * kColumns, random);
      std::vector<float> expected(n * outputs);
      for (const int count : {1, 2, 3, 8}) {
        SCOPED_TRACE(testing::Message() << tier->name << ", " << n << " vectors, " << count << " threads");
        Threads threads(count);
        const ActivationRoom room = activation_room(n, kColumns, count, KernelNeeds(kernels));
        const auto scratch = aligned_bytes(room.bytes);
        Product product = {.rows = rows,
                           .columns = kColumns,
                           .n = n,
                           .x = x.data(),
                           .x_stride = kColumns,
                           .y = expected.data(),
                           .y_stride = outputs,
                           .activations = {scratch.get(), room.of_worker}};
        if (count == 1) multiply(threads, kernels, product);
        EXPECT_EQ(CountingAbreast::products, 0u) << "without scratch";
        std::vector<float> y(n * outputs);
        product.y = y.data();
        product.activations = room.in(scratch.get());
        EXPECT_EQ(product.activations.abreast != nullptr, n >= 20);
        multiply(threads, kernels, product);
        EXPECT_TRUE(same_bytes(y, expected));
        EXPECT_EQ(CountingAbreast::products.exchange(0), in_time * abreast);
      }
    }
  }
}

// Ternary weights of which a matrix has codes of 3 take their activations like those that have none, or not: either
// way all are what they are elsewhere.
TEST(Multiply, LeavesMatricesThatAreNotTernary) {
  std::mt19937 random(15);
  for (const KernelTable *tier : testable_kernels()) {
    if (!tier->abreast.multiply) continue;
    CountingAbreast counting(*tier);
    Matrix ternary(packed_for(counting.kernels, Format::kTQ2_0_G128), 96, kColumns),
        with_code3(Format::kTQ2_0_G128, 96, kColumns);
    fill_random(ternary, random);
    fill_random(with_code3, random);
    const PackedMatrix first = ternary.pack(), second = with_code3.pack();
    const std::vector<MatrixRows> rows = {{&first, 0, 96, 0}, {&second, 0, 96, 96}};
    const std::vector<float> x = random_vectors(64 * kColumns, random);
    std::vector<float> expected(64 * 192), y(64 * 192);
    Threads threads(2);
    const ActivationRoom room = activation_room(64, kColumns, 2, KernelNeeds(counting.kernels));
    const auto scratch = aligned_bytes(room.bytes);
    Product product = {.rows = rows,
                       .columns = kColumns,
                       .n = 64,
                       .x = x.data(),
                       .x_stride = kColumns,
                       .y = expected.data(),
                       .y_stride = 192,
                       .activations = {scratch.get(), room.of_worker}};
    multiply(threads, counting.kernels, product);
    product.y = y.data();
    product.activations = room.in(scratch.get());
    multiply(threads, counting.kernels, product);
    EXPECT_TRUE(same_bytes(y, expected)) << tier->name;
    const bool is_apart = activation_layout(first) != activation_layout(second);
    const bool is_taken = is_apart && counting.kernels.abreast.takes_ternary;
    EXPECT_EQ(CountingAbreast::products, is_taken ? 64u * 96 : 0u) << tier->name;
  }
}

// The machine's best kernels, and of the others the first that multiply abreast.
std::vector<std::pair<const KernelTable *, Format>> tiers_and_formats() {
  std::vector<std::pair<const KernelTable *, Format>> all;
  for (const Format format : {Format::kQ1_0_G128, Format::kTQ2_0_G128, Format::kQ8_0, Format::kF16}) {
    all.emplace_back(runnable_kernels().front(), format);
  }
  for (const KernelTable *kernels : testable_kernels()) {
    if (!kernels->abreast.multiply || kernels == runnable_kernels().front()) continue;
    all.emplace_back(kernels, Format::kQ1_0_G128);
    all.emplace_back(kernels, Format::kTQ1_0_G128);
    break;
  }
  return all;
}

// Slices of different heights, in sectors of 16 and 32 rows; `others` cannot be divided in this way.
TEST(Multiply, GivesSectorsToOneWorkerEach) {
  constexpr uint64_t kSectors = 24, kTall = 32 * kSectors, kLow = 16 * kSectors;
  constexpr uint64_t kOutputs = kTall + 2 * kLow;
  std::mt19937 random(13);
  for (const auto &[tier, format] : tiers_and_formats()) {
    const CountingAbreast counting(*tier);
    const KernelTable &kernels = counting.kernels;
    KernelTable in_two_streams = kernels;
    in_two_streams.prefetch = Prefetch::kSecondLevelTwoStreams;
    Matrix tall(packed_for(kernels, format), kTall, kColumns), low(packed_for(kernels, format), 3 * kLow, kColumns);
    fill_random(tall, random);
    fill_random(low, random);
    const PackedMatrix first = tall.pack(), rest = low.pack();
    const std::vector<MatrixRows> rows = {
        {&first, 0, kTall, 0}, {&rest, kLow, 2 * kLow, kTall}, {&rest, 2 * kLow, 3 * kLow, kTall + kLow}};
    const Sectors sectors = {kSectors, 3};
    for (const uint32_t n : {1u, 3u, 40u, 64u}) {
      const std::vector<float> x = random_vectors(n * kColumns, random);
      std::vector<float> expected(n * kOutputs);
      for (const int count : {1, 2, 3, 8, 9}) {  // of nine, each would get two sectors or three
        SCOPED_TRACE(testing::Message() << tier->name << ", " << quant::traits(format).name << ", " << n << " vectors, "
                                        << count << " threads");
        Threads threads(count);
        const ActivationRoom room = activation_room(n, kColumns, count, KernelNeeds(kernels));
        const auto scratch = aligned_bytes(room.bytes);
        Product product = {.rows = rows,
                           .columns = kColumns,
                           .n = n,
                           .x = x.data(),
                           .x_stride = kColumns,
                           .y = expected.data(),
                           .y_stride = kOutputs,
                           .activations = {scratch.get(), room.of_worker}};
        if (count == 1) multiply(threads, kernels, product);
        std::vector<float> y(n * kOutputs), seen(n * kOutputs);
        std::vector<std::atomic<int>> times(kSectors);
        const auto copy = [&](uint64_t begin, uint64_t end, int worker) {
          EXPECT_LT(worker, count);
          for (uint64_t sector = begin; sector < end; ++sector) ++times[sector];
          for (uint32_t i = 0; i < n; ++i) {
            for (const MatrixRows &slice : rows) {
              const uint64_t height = (slice.last_row - slice.first_row) / kSectors;
              const uint64_t from = i * kOutputs + slice.output + begin * height;
              std::copy_n(y.data() + from, (end - begin) * height, seen.data() + from);
            }
          }
        };
        const SectorStep then = copy;
        product.y = y.data();
        product.activations = room.in(scratch.get());
        product.sectors = sectors;
        product.next = rows;
        product.next_sectors = sectors;
        EXPECT_EQ(has_sectors_for(rows, sectors, count), count != 9);
        if (count != 9) product.then = &then;
        multiply(threads, in_two_streams, product);
        EXPECT_TRUE(same_bytes(y, expected));
        const uint64_t abreast = kernels.takes_abreast(first) ? n / kAbreastVectors * kAbreastVectors : 0;
        EXPECT_EQ(CountingAbreast::products.exchange(0), abreast * kOutputs);
        if (count == 9) continue;
        EXPECT_TRUE(same_bytes(seen, expected)) << "a step began too early";
        EXPECT_TRUE(std::ranges::all_of(times, [](int times) { return times == 1; }));
      }
    }
  }
}

// Kernels whose first caller waits in its first call until other threads have multiplied so many rows.
struct SlowFirstCall {
  KernelTable kernels;
  static inline void (*matmul)(const MatmulArgs &args);
  static inline std::atomic<std::thread::id> slow;
  static inline std::atomic<uint64_t> rows_of_others, awaited;

  SlowFirstCall(const KernelTable &of, uint64_t rows) : kernels(of) {
    matmul = of.matmul;
    slow = std::thread::id();
    rows_of_others = 0;
    awaited = rows;
    kernels.abreast = {};
    kernels.panels = {};
    kernels.scratch_bytes = 0;
    kernels.matmul = call;
  }

  static void call(const MatmulArgs &args) {
    std::thread::id nobody;
    const std::thread::id self = std::this_thread::get_id();
    const bool is_first = slow.compare_exchange_strong(nobody, self);
    matmul(args);
    if (!is_first && slow.load() != self) rows_of_others += args.last_row - args.first_row;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (is_first && rows_of_others < awaited && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
  }
};

// A product whose second worker does all but what the first one has begun.
struct SharedProduct {
  const char *name;
  Format format;
  uint64_t rows;
  uint32_t n;
  Sectors sectors;
  bool has_sink;
  uint64_t rows_of_first;  // that it begins with
};

TEST(Multiply, LeavesASlowWorkerWhatItHasBegun) {
  std::mt19937 random(17);
  const SharedProduct products[] = {
      {"tiles of one vector", Format::kQ8_0, 4096, 1, {}, false, 1024},
      {"tiles of many vectors", Format::kQ8_0, 4096, 9, {}, false, 1024},
      {"sectors", Format::kF16, 4096, 1, {32, 2}, false, 1024},
      {"pieces", Format::kQ8_0, 8192, 1, {}, true, 2048},
  };
  for (const SharedProduct &shared : products) {
    SCOPED_TRACE(shared.name);
    Matrix matrix(shared.format, shared.rows, kColumns);
    fill_random(matrix, random);
    const PackedMatrix packed = matrix.pack();
    const uint64_t half = shared.rows / 2;
    std::vector<MatrixRows> rows = {{&packed, 0, shared.rows, 0}};
    if (shared.sectors.n > 0) rows = {{&packed, 0, half, 0}, {&packed, half, shared.rows, half}};
    const std::vector<float> x = random_vectors(shared.n * kColumns, random);
    std::vector<float> expected(shared.n * shared.rows), y(shared.n * shared.rows);
    const ActivationRoom room = activation_room(shared.n, kColumns, 2);
    const auto scratch = aligned_bytes(room.bytes);
    Product product = {.rows = rows,
                       .columns = kColumns,
                       .n = shared.n,
                       .x = x.data(),
                       .x_stride = kColumns,
                       .y = expected.data(),
                       .y_stride = shared.rows,
                       .activations = {scratch.get(), room.of_worker},
                       .sectors = shared.sectors};
    Threads alone(1), threads(2);
    multiply(alone, portable_kernels(), product);

    SlowFirstCall slow(portable_kernels(), shared.rows - shared.rows_of_first);
    std::vector<std::atomic<int>> times(shared.sectors.n);
    std::vector<float> seen(y.size());
    const auto copy = [&](uint64_t begin, uint64_t end, int) {
      for (uint64_t sector = begin; sector < end; ++sector) ++times[sector];
      const uint64_t height = half / shared.sectors.n;
      for (const MatrixRows &slice : rows)
        std::copy_n(y.data() + slice.output + begin * height, (end - begin) * height,
                    seen.data() + slice.output + begin * height);
    };
    const SectorStep then = copy;
    Collector collector(shared.n, shared.rows, count_pieces(rows));
    std::vector<float> of_workers(2 * piece_elements(shared.n));
    product.y = shared.has_sink ? of_workers.data() : y.data();
    if (shared.has_sink) product.sink = &collector;
    if (shared.sectors.n > 0) product.then = &then;
    multiply(threads, slow.kernels, product);
    EXPECT_TRUE(same_bytes(shared.has_sink ? collector.y : y, expected));
    EXPECT_EQ(SlowFirstCall::rows_of_others, shared.rows - shared.rows_of_first);
    EXPECT_TRUE(std::ranges::all_of(times, [](int times) { return times == 1; }));
    if (shared.sectors.n > 0) {
      EXPECT_TRUE(same_bytes(seen, expected)) << "a step began too early";
    }
  }
}

TEST(Multiply, HasSectorsOnlyWhereSlicesAreWholeTilesOfOneMatrix) {
  Matrix signs(Format::kQ8_0, 256, kColumns), floats(Format::kF16, 256, kColumns);
  const PackedMatrix a = signs.pack(), b = floats.pack();
  const auto has = [](std::vector<MatrixRows> rows, Sectors sectors) { return has_sectors_for(rows, sectors, 2); };
  EXPECT_TRUE(has({{&a, 0, 128, 0}, {&a, 128, 256, 128}}, {8, 2}));
  EXPECT_TRUE(has({{&a, 0, 256, 0}, {&a, 0, 128, 256}}, {8, 2}));
  EXPECT_FALSE(has({{&a, 0, 128, 0}, {&a, 128, 256, 128}}, {0, 2})) << "none";
  EXPECT_FALSE(has({{&a, 0, 128, 0}, {&a, 128, 256, 128}}, {8, 1})) << "a slice in two matrices";
  EXPECT_FALSE(has({{&a, 0, 128, 0}, {&b, 0, 128, 128}}, {8, 2})) << "other activations";
  EXPECT_FALSE(has({{&a, 0, 128, 0}, {&a, 136, 256, 128}}, {8, 2})) << "a slice that begins within a tile";
  EXPECT_FALSE(has({{&a, 0, 128, 0}, {&a, 128, 256, 128}}, {16, 2})) << "sectors of half a tile";
  EXPECT_FALSE(has({{&a, 0, 144, 0}, {&a, 0, 144, 144}}, {9, 2})) << "five sectors and four";
}

}  // namespace
}  // namespace bonsai::cpu
