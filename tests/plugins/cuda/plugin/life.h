// A small life of the plugin through its C ABI: everything that a host asks of a backend, once. It stops at the first
// call that fails, and gives everything back.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/plugin-check/batch.h"
#include "tools/plugin-check/random_model.h"

namespace bonsai::test {

// How a call of a life ended.
struct Ending {
  std::string call;  // "weight_upload"; empty: all succeeded
  bonsai_status status = BONSAI_OK;
  bonsai_status code = BONSAI_OK;  // of the error that it wrote
  std::string message;
};

class Life {
 public:
  // What happens to a call that failed: it is made again, or the life is over.
  enum class AfterFailure { kStop, kAgain };

  explicit Life(AfterFailure after_failure) : after_failure_(after_failure) {}
  ~Life();
  Life(const Life &) = delete;
  Life &operator=(const Life &) = delete;

  // Called when there is a session.
  std::function<void()> on_session = [] {};

  // Lives it; the first failure, also of one that was made good.
  Ending run();
  // All that the calls returned: products, logits, tokens, KV blocks. Complete if no call failed for good.
  const std::vector<float> &numbers() const { return numbers_; }
  const std::vector<std::byte> &kv() const { return kv_; }
  // The same block as kv() has, of the end of a chain of copies.
  const std::vector<std::byte> &copied_kv() const { return copied_kv_; }
  // Calls that were not refused although they go on from what a failed one was to leave.
  const std::vector<std::string> &went_on() const { return went_on_; }
  // Ends what is alive, in the order that the ABI asks for.
  void end();

 private:
  struct Stopped {};
  using Call = std::function<bonsai_status(bonsai_error *)>;

  void make(const char *name, const Call &call);
  void open();
  void upload();
  const bonsai_weight_slice *upload(const std::vector<const gguf::Tensor *> &tensors, bonsai_weight_use uses);
  void stack(const std::vector<std::pair<const gguf::Tensor *, const bonsai_weight_slice **>> &matrices);
  void multiply();
  void create_session();
  void forward(check::Batch &batch, check::Outputs &outputs);
  void prefill();
  void decode();
  void chain();
  void move_blocks();
  void run_layer_by_layer();
  void ask();
  bool went_on_after(const char *name, bonsai_status status);
  void keep(const check::Outputs &outputs);

  const AfterFailure after_failure_;
  Ending ending_;
  bonsai_device *device_ = nullptr;
  std::vector<bonsai_weight *> weights_;
  std::deque<bonsai_weight_slice> slices_;
  std::deque<bonsai_layer_spec> layers_;
  std::vector<const bonsai_layer_spec *> layer_pointers_;
  bonsai_model_spec spec_{};
  bonsai_session *session_ = nullptr;
  std::vector<float> numbers_;
  std::vector<std::byte> kv_, copied_kv_;
  std::vector<std::string> went_on_;
};

// The table of the plugin under test.
const bonsai_backend_api &plugin_api();

}  // namespace bonsai::test
