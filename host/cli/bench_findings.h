// All that `bonsai bench` measured, and how it is shown.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/bench/concurrency.h"
#include "host/bench/measure.h"
#include "host/bench/peak.h"
#include "host/bench/roofline.h"
#include "host/bench/stream.h"
#include "host/bench/work.h"

namespace bonsai::cli {

// What ran, and on what.
struct Setting {
  std::string model, backend, version, device, kernel;
  uint32_t threads = 0;  // of this machine's processor that compute; 0: none, or the backend does not say
};

// What this machine's memory allows as many threads as ran (the median of what it gave around the repetitions), and
// all its cores.
struct Streams {
  bench::StreamSpeed own, all_cores;
};

// What its arithmetic units allow as many threads as ran (no more than it runs at once), and one.
struct Peaks {
  struct Peak {
    bench::PeakSpeed own, one_thread;
  };
  Peak int8, fma;

  // Of the mix of both that a model needs.
  double operations_per_second(const bench::MatrixWork &work) const;
};

struct Findings {
  bench::Plan plan;
  Setting setting;
  bench::Rates rates;
  std::vector<bench::Concurrency> concurrency;  // if asked for
  struct Profiles {
    bench::Profile prefill, decode;
  };
  std::optional<Profiles> profiles;  // if asked for
  bench::Work prefill, decode;       // of one repetition
  bench::MatrixWork prefill_products;
  uint64_t weight_bytes = 0;       // of one token
  std::optional<Streams> streams;  // unless something else than this machine's processor computed
  std::optional<Peaks> peaks;      // likewise, and where a processor's peak can be measured

  uint64_t bytes_per_token() const { return decode.bytes / plan.decode_tokens; }
  double bandwidth() const { return static_cast<double>(bytes_per_token()) * rates.decode.tokens_per_second; }
  std::optional<double> bandwidth_share() const;  // the median of the repetitions, each of the memory around it
  double prefill_operations_per_second() const;
  std::optional<double> peak_share() const;
};

nlohmann::ordered_json to_json(const Findings &findings);
std::string to_text(const Findings &findings);
bench::Roofline to_roofline(const Findings &findings);

}  // namespace bonsai::cli
