#include "host/bench/stream.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "host/bench/passes.h"

namespace bonsai::bench {
namespace {

// Two cache lines at a time into sums that do not wait for each other: any compiler makes vector loads and additions of
// it, and even those of 16 bytes outrun the memory several times. Some processors read faster if they are also asked
// for what lies kAhead bytes on (0: they are not), beyond the end too; some if these are lines of kPieces pieces in
// turn. Precondition: the size is a multiple of 16 words for each piece.
template <size_t kAhead, size_t kPieces>
uint64_t sum(std::span<const uint64_t> words) {
  constexpr size_t kLanes = 16, kLineWords = 8;
  const size_t piece = words.size() / kPieces;
  std::array<uint64_t, kLanes> sums{};
  for (size_t i = 0; i < piece; i += kLanes) {
    for (size_t at = i; at < words.size(); at += piece) {
      if constexpr (kAhead > 0) {
        for (size_t lane = 0; lane < kLanes; lane += kLineWords)
          __builtin_prefetch(reinterpret_cast<const void *>(reinterpret_cast<uintptr_t>(&words[at + lane]) + kAhead), 0,
                             1);
      }
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[at + lane];
    }
  }
  uint64_t total = 0;
  for (const uint64_t lane : sums) total += lane;
  return total;
}

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

}  // namespace

// Pages from the system, untouched: whoever writes to one first decides which memory it lies in.
class StreamMemory::Pages {
 public:
  explicit Pages(std::span<uint64_t> words) : words_(words) {}
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  ~Pages() { ::munmap(words_.data(), words_.size_bytes()); }

  std::span<uint64_t> words() const { return words_; }

 private:
  std::span<uint64_t> words_;
};

StreamMemory::StreamMemory(int threads, std::unique_ptr<Pages> pages) : threads_(threads), pages_(std::move(pages)) {}
StreamMemory::StreamMemory(StreamMemory &&) noexcept = default;
StreamMemory::~StreamMemory() = default;

Result<StreamMemory> StreamMemory::create(int threads, uint64_t bytes) {
  const uint64_t multiple = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) * static_cast<uint64_t>(threads);
  const uint64_t rounded = (bytes + multiple - 1) / multiple * multiple;
  void *memory = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail("cannot map {} bytes to measure the memory: {}", rounded, std::generic_category().message(errno));
  ::madvise(memory, rounded, MADV_HUGEPAGE);  // fewer page walks; only a hint
  const std::span words(static_cast<uint64_t *>(memory), rounded / sizeof(uint64_t));
  return StreamMemory(threads, std::make_unique<Pages>(words));
}

Result<StreamSpeed> StreamMemory::read(int passes) {
  const std::span<uint64_t> words = pages_->words();
  const size_t share = words.size() / static_cast<size_t>(threads_);
  const auto piece = [&](size_t thread) { return words.subspan(thread * share, share); };
  const auto prepare = [&](size_t thread) {
    if (!is_written_) std::ranges::fill(piece(thread), uint64_t{1});
  };
  std::vector<uint64_t> sums(static_cast<size_t>(threads_));
  uint64_t least = words.size(), most = words.size();  // of what any way found
  const auto seconds_of = [&](Sum way) {
    const double seconds =
        fastest_pass(threads_, passes, prepare, [&](size_t thread) { sums[thread] = way(piece(thread)); });
    const uint64_t total = std::accumulate(sums.begin(), sums.end(), uint64_t{0});
    least = std::min(least, total);
    most = std::max(most, total);
    return seconds;
  };
  const auto try_way = [&](Sum way, double fastest) {
    const double seconds = seconds_of(way);
    if (seconds < fastest) way_ = way;
    return std::min(seconds, fastest);
  };
  double seconds = seconds_of(way_ ? way_ : sum<0, 1>);
  is_written_ = true;
  if (!way_) {
    way_ = sum<0, 1>;
    seconds = try_way(sum<8192, 1>, seconds);
    seconds = try_way(sum<2048, 4>, seconds);
  }
  if (least != most)
    return fail("the memory does not hold what was written to it: {} words sum up to {}", words.size(),
                least < words.size() ? least : most);
  const uint64_t read = words.size_bytes();
  return StreamSpeed{.bytes_per_second = static_cast<double>(read) / seconds, .bytes = read, .threads = threads_};
}

Result<StreamSpeed> measure_stream(int threads, uint64_t bytes, int passes) {
  auto memory = StreamMemory::create(threads, bytes);
  if (!memory) return tl::unexpected(memory.error());
  return memory->read(passes);
}

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

uint64_t stream_bytes() { return std::max(uint64_t{1} << 30, 4 * last_level_cache_bytes()); }

}  // namespace bonsai::bench
