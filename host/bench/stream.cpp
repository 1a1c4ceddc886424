#include "host/bench/stream.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace bonsai::bench {
namespace {

// Pages from the system, untouched: whoever writes to one first decides which memory it lies in.
class Pages {
 public:
  static Result<Pages> map(uint64_t bytes) {
    void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return fail("cannot map {} bytes to measure the memory: {}", bytes, std::generic_category().message(errno));
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // fewer page walks; only a hint
    return Pages({static_cast<uint64_t *>(memory), bytes / sizeof(uint64_t)});
  }
  Pages(Pages &&other) noexcept : words_(std::exchange(other.words_, {})) {}
  Pages &operator=(Pages &&) = delete;
  ~Pages() {
    if (!words_.empty()) ::munmap(words_.data(), words_.size_bytes());
  }

  std::span<uint64_t> words() const { return words_; }

 private:
  explicit Pages(std::span<uint64_t> words) : words_(words) {}
  std::span<uint64_t> words_;
};

// Two cache lines at a time into sums that do not wait for each other: any compiler makes vector loads and additions of
// it, and even those of 16 bytes outrun the memory several times. Precondition: the size is a multiple of 16 words.
uint64_t sum(std::span<const uint64_t> words) {
  constexpr size_t kLanes = 16;
  std::array<uint64_t, kLanes> sums{};
  for (size_t i = 0; i < words.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[i + lane];
  uint64_t total = 0;
  for (const uint64_t lane : sums) total += lane;
  return total;
}

// All threads pass through the same barriers; the first is the caller, which takes the time.
class Measurement {
 public:
  Measurement(std::span<uint64_t> words, int threads, int passes)
      : words_(words), threads_(static_cast<size_t>(threads)), passes_(passes), sums_(threads_), barrier_(threads) {}

  // Seconds of the fastest pass.
  double run() {
    std::vector<std::jthread> others;
    for (size_t thread = 1; thread < threads_; ++thread) others.emplace_back([this, thread] { work(thread); });
    work(0);
    return fastest_;
  }

  // What every thread's last pass added up to: as many as there are words.
  uint64_t total() const {
    uint64_t total = 0;
    for (const uint64_t sum : sums_) total += sum;
    return total;
  }

 private:
  void work(size_t thread) {
    const size_t share = words_.size() / threads_;
    const std::span<uint64_t> mine = words_.subspan(thread * share, share);
    std::fill(mine.begin(), mine.end(), uint64_t{1});
    for (int pass = 0; pass < passes_; ++pass) {
      barrier_.arrive_and_wait();
      const auto start = std::chrono::steady_clock::now();
      sums_[thread] = sum(mine);
      barrier_.arrive_and_wait();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (thread == 0) fastest_ = pass == 0 ? taken.count() : std::min(fastest_, taken.count());
    }
  }

  std::span<uint64_t> words_;
  size_t threads_;
  int passes_;
  std::vector<uint64_t> sums_;
  std::barrier<> barrier_;
  double fastest_ = 0;
};

std::string first_word(const std::filesystem::path &path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

uint64_t number(std::string_view text) {
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The last-level caches of all processors, each counted once: those that list the same processors are one.
uint64_t last_level_cache_bytes() {
  struct Cache {
    uint64_t level = 0, bytes = 0;
  };
  std::map<std::string, Cache> last;  // by the processors that share it
  std::error_code error;
  for (int cpu = 0;; ++cpu) {
    const std::filesystem::path directory = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache";
    if (!std::filesystem::exists(directory, error)) break;
    Cache largest;
    std::string shared_by;
    for (int index = 0;; ++index) {
      const std::filesystem::path cache = directory / ("index" + std::to_string(index));
      if (!std::filesystem::exists(cache, error)) break;
      const uint64_t level = number(first_word(cache / "level"));
      if (level < largest.level) continue;
      largest = {level, number(first_word(cache / "size")) * 1024};  // "32768K"
      shared_by = first_word(cache / "shared_cpu_list");
    }
    last[shared_by] = largest;
  }
  uint64_t bytes = 0;
  for (const auto &[shared_by, cache] : last) bytes += cache.bytes;
  return bytes;
}

// The number behind a key in a file of "key value" lines; nullopt if there is none.
std::optional<uint64_t> field(const char *path, std::string_view key) {
  std::ifstream file(path);
  for (std::string word, value; file >> word >> value; file.ignore(256, '\n'))
    if (word == key) return number(value);
  return std::nullopt;
}

}  // namespace

Result<StreamSpeed> measure_stream(int threads, uint64_t bytes, int passes) {
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t multiple = page * static_cast<uint64_t>(threads);
  const auto pages = Pages::map((bytes + multiple - 1) / multiple * multiple);
  if (!pages) return tl::unexpected(pages.error());
  Measurement measurement(pages->words(), threads, passes);
  const double seconds = measurement.run();
  if (measurement.total() != pages->words().size())
    return fail("the memory does not hold what was written to it: {} words sum up to {}", pages->words().size(),
                measurement.total());
  const uint64_t read = pages->words().size_bytes();
  return StreamSpeed{.bytes_per_second = static_cast<double>(read) / seconds, .bytes = read, .threads = threads};
}

uint64_t stream_bytes() { return std::max(uint64_t{1} << 30, 4 * last_level_cache_bytes()); }

std::optional<uint64_t> available_memory_bytes() {
  const auto available_kib = field("/proc/meminfo", "MemAvailable:");
  if (!available_kib) return std::nullopt;
  uint64_t available = *available_kib * 1024;
  const uint64_t limit = number(first_word("/sys/fs/cgroup/memory.max"));  // "max" where there is none
  const uint64_t used = field("/sys/fs/cgroup/memory.stat", "anon").value_or(0);
  if (limit > 0) available = std::min(available, limit > used ? limit - used : 0);
  return available;
}

}  // namespace bonsai::bench
