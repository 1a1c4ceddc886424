#include "tools/plugin-check/session_argument_checks.h"

#include <algorithm>
#include <limits>

#include "tools/plugin-check/refusal.h"
#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

// -------- Batches and outputs

struct Request {
  Batch batch;
  bonsai_batch view{};
  bonsai_output output{};
  std::vector<const bonsai_output *> outputs = {&output};
  uint32_t n_outputs = 1;
  uint32_t block_size;

  std::vector<float> logits, states;
  std::vector<int32_t> top_ids = {-1, -1};
  std::vector<float> top_logits = {0, 0};
  float log_sum_exp = 0;
  std::vector<int32_t> ids = {0};
  std::vector<float> adjustment = {1, 1};

  Request(Stage &stage, const std::vector<uint32_t> &blocks)
      : block_size(stage.session.config.block_size),
        logits(stage.config().vocab),
        states(2 * stage.config().hidden, 0.5f) {
    batch.block_table = {blocks, {blocks.back()}};
    batch.add(1, 0);
    batch.add(2, 1);
    view = batch.view();
    output.struct_size = sizeof output;
    output.kind = BONSAI_OUTPUT_LOGITS;
    output.logits = logits.data();
    output.top_ids = top_ids.data();
    output.top_logits = top_logits.data();
    output.log_sum_exp = &log_sum_exp;
    output.id_logits = top_logits.data();
  }
  Request(const Request &) = delete;
  Request &operator=(const Request &) = delete;

  void select(bonsai_output_kind kind, uint32_t k) {
    output.kind = kind;
    output.k = k;
  }
  // NULL: none, however many there are said to be.
  const bonsai_output *const *wanted() const { return outputs.empty() ? nullptr : outputs.data(); }
  void ask_for_ids(size_t n) {
    ids.assign(n, 0);
    top_logits.resize(std::max(n, top_logits.size()));
    output.n_ids = static_cast<uint32_t>(n);
    output.ids = ids.data();
    output.top_logits = output.id_logits = top_logits.data();
  }
  void adjust(int32_t id, float repeat, float add = 1) {
    ids[0] = id;
    adjustment = {repeat, add};
    output.n_adjustments = 1;
    output.adjust_ids = ids.data();
    output.adjust_repeat = &adjustment[0];
    output.adjust_add = &adjustment[1];
  }
};

constexpr Mistake<Request> kBatches[] = {
    {"no tokens", Expected::kInvalid, [](Request &r) { r.view.n_tokens = 0; }},
    {"more tokens than the session's", Expected::kInvalid, [](Request &r) { r.view.n_tokens = 513; }},
    {"no positions", Expected::kInvalid, [](Request &r) { r.view.positions = nullptr; }},
    {"no sequences", Expected::kInvalid, [](Request &r) { r.view.sequences = nullptr; }},
    {"no block table", Expected::kInvalid, [](Request &r) { r.view.block_table = nullptr; }},
    {"more sequences than the session's", Expected::kInvalid, [](Request &r) { r.view.n_sequences = 9; }},
    {"a wider block table than the session's", Expected::kInvalid,
     [](Request &r) { r.view.blocks_per_sequence = 1000000; }},
    {"a sequence that does not exist", Expected::kInvalid, [](Request &r) { r.batch.sequences[1] = 2; }},
    {"a position beyond the block table", Expected::kInvalid,
     [](Request &r) { r.batch.positions[1] = r.view.blocks_per_sequence * r.block_size; }},
    {"a position beyond the RoPE tables", Expected::kInvalid, [](Request &r) { r.batch.positions[1] = 1u << 30; }},
    {"a block beyond the pool", Expected::kInvalid,
     [](Request &r) {
       r.batch.block_table[0][0] = 1000000;
       r.view = r.batch.view();
     }},
    {"a short batch", Expected::kInvalid, [](Request &r) { r.view.struct_size = 16; }},
};

constexpr Mistake<Request> kTokens[] = {
    {"no token ids", Expected::kInvalid, [](Request &r) { r.view.tokens = nullptr; }},
    {"token ids and hidden states", Expected::kInvalid, [](Request &r) { r.view.hidden = r.states.data(); }},
    {"a token beyond the vocabulary", Expected::kInvalid, [](Request &r) { r.batch.tokens[1] = 1000000; }},
    {"a token of a submit that never was", Expected::kEither,
     [](Request &r) { r.batch.tokens[1] = BONSAI_TOKEN_FROM_OUTPUT(0); }},
    {"the most negative token", Expected::kEither,
     [](Request &r) { r.batch.tokens[1] = std::numeric_limits<int32_t>::min(); }},
};

constexpr Mistake<Request> kOutputs[] = {
    {"outputs that are NULL", Expected::kInvalid, [](Request &r) { r.n_outputs = 2, r.outputs.clear(); }},
    {"more outputs than the session's", Expected::kInvalid,
     [](Request &r) { r.outputs.assign(r.n_outputs = 513, &r.output); }},
    {"a short output", Expected::kInvalid, [](Request &r) { r.output.struct_size = 16; }},
    {"an output whose reserved field is set", Expected::kInvalid, [](Request &r) { r.output.reserved = 1; }},
    {"an unknown kind of output", Expected::kUnsupported, [](Request &r) { r.output.kind = 77; }},
    {"an output of a token that is not there", Expected::kInvalid, [](Request &r) { r.output.token = 2; }},
    {"logits into NULL", Expected::kInvalid, [](Request &r) { r.output.logits = nullptr; }},
    {"a hidden state into NULL", Expected::kInvalid, [](Request &r) { r.output.kind = BONSAI_OUTPUT_HIDDEN; }},
    {"an argmax into NULL", Expected::kInvalid,
     [](Request &r) {
       r.select(BONSAI_OUTPUT_ARGMAX, 0);
       r.output.top_ids = nullptr;
     }},
    {"a top-k of 0", Expected::kInvalid, [](Request &r) { r.select(BONSAI_OUTPUT_TOP_K, 0); }},
    {"a top-k beyond the session's", Expected::kInvalid, [](Request &r) { r.select(BONSAI_OUTPUT_TOP_K, 65); }},
    {"a top-k into NULL", Expected::kInvalid,
     [](Request &r) {
       r.select(BONSAI_OUTPUT_TOP_K, 2);
       r.output.top_logits = nullptr;
     }},
    {"asked-for ids that are NULL", Expected::kInvalid,
     [](Request &r) {
       r.select(BONSAI_OUTPUT_TOP_K, 2);
       r.output.n_ids = 1;
     }},
    {"an asked-for id beyond the vocabulary", Expected::kInvalid,
     [](Request &r) {
       r.select(BONSAI_OUTPUT_TOP_K, 2);
       r.ask_for_ids(1);
       r.ids[0] = 1000000;
     }},
    {"a negative asked-for id", Expected::kInvalid,
     [](Request &r) {
       r.select(BONSAI_OUTPUT_TOP_K, 2);
       r.ask_for_ids(1);
       r.ids[0] = -1;
     }},
    {"more asked-for ids than the vocabulary has", Expected::kInvalid,
     [](Request &r) {
       r.select(BONSAI_OUTPUT_TOP_K, 2);
       r.ask_for_ids(r.logits.size() + 1);
     }},
};

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr Mistake<Request> kAdjustments[] = {
    {"an adjusted id beyond the vocabulary", Expected::kInvalid, [](Request &r) { r.adjust(1000000, 1); }},
    {"a negative adjusted id", Expected::kInvalid, [](Request &r) { r.adjust(-1, 1); }},
    {"a repetition factor of 0", Expected::kInvalid, [](Request &r) { r.adjust(1, 0); }},
    {"an infinite repetition factor", Expected::kInvalid, [](Request &r) { r.adjust(1, kInfinity); }},
    {"an infinite addend", Expected::kInvalid, [](Request &r) { r.adjust(1, 1, kInfinity); }},
    {"an addend that is no number", Expected::kInvalid,
     [](Request &r) { r.adjust(1, 1, std::numeric_limits<float>::quiet_NaN()); }},
    {"adjustments that are NULL", Expected::kInvalid, [](Request &r) { r.output.n_adjustments = 1; }},
    {"a negative temperature", Expected::kInvalid, [](Request &r) { r.output.temperature = -1; }},
    {"an infinite temperature", Expected::kInvalid, [](Request &r) { r.output.temperature = kInfinity; }},
    {"a temperature that is no number", Expected::kInvalid,
     [](Request &r) { r.output.temperature = std::numeric_limits<float>::quiet_NaN(); }},
};

// The call that takes whole requests at this stage's level.
const char *call_name(const Stage &stage) { return stage.path == Path::kForward ? "forward_submit" : "layer_encode"; }

class Requests {
 public:
  explicit Requests(Stage &stage) : stage_(stage), blocks_(stage.take_blocks(40)) {}

  template <size_t n>
  void expect_refused_batches(const Mistake<Request> (&mistakes)[n]) {
    for (const auto &mistake : mistakes) {
      Request request(stage_, blocks_);
      mistake.make(request);
      const std::string what = std::string(call_name(stage_)) + " with " + mistake.what;
      if (stage_.path == Path::kForward) {
        expect_refused_submit(what, mistake.expected, request);
      } else {
        const std::vector<float> in(2 * stage_.config().hidden, 0.5f);
        expect_refused(what, mistake.expected, [&](bonsai_error *error) {
          return stage_.session.api.layer_encode(stage_.session.handle, 0, &request.view, in.data(), nullptr, error);
        });
      }
    }
  }

  // By forward_submit where it is offered, and by lm_head.
  template <size_t n>
  void expect_refused_outputs(const Mistake<Request> (&mistakes)[n]) {
    const std::vector<float> in(2 * stage_.config().hidden, 0.5f);
    for (const auto &mistake : mistakes) {
      Request request(stage_, blocks_);
      mistake.make(request);
      expect_refused(std::string("lm_head with ") + mistake.what, mistake.expected, [&](bonsai_error *error) {
        return stage_.session.api.lm_head(stage_.session.handle, in.data(), 2, request.wanted(), request.n_outputs,
                                          error);
      });
      if (stage_.path != Path::kForward) continue;
      expect_refused_submit(std::string("forward_submit with ") + mistake.what, mistake.expected, request);
    }
  }

  // A good one, whose table holds no blocks past its sequences' ends.
  void run_layer(float *out = nullptr) {
    Request request(stage_, blocks_);
    stage_.session.encode(0, request.view, state().data(), out);
  }
  // Whole: what is refused in other requests is refused for its mistake.
  void run() {
    run_layer();
    if (stage_.path != Path::kForward) return;
    Request request(stage_, blocks_);
    stage_.session.wait(submit(request));
  }
  // One that nothing is wanted of, so that it need not live until it is waited for.
  uint64_t submit_for_nothing() {
    Request request(stage_, blocks_);
    request.n_outputs = 0;
    return submit(request);
  }
  void expect_no_third_submit() {
    Request request(stage_, blocks_);
    expect_refused_submit("forward_submit with two submits in flight", Expected::kInvalid, request);
  }

 private:
  std::vector<float> state() const { return std::vector<float>(2 * stage_.config().hidden, 0.5f); }
  void bring_states(Request &request) const {
    if (stage_.uploaded.spec.embedding) return;
    request.view.tokens = nullptr;
    request.view.hidden = request.states.data();
  }

  uint64_t submit(Request &request) {
    bring_states(request);
    uint64_t ticket = 0;
    bonsai_error error = empty_error();
    expect_ok("forward_submit of a good batch, whose block table holds no blocks past its sequences' ends,",
              stage_.session.api.forward_submit(stage_.session.handle, &request.view, request.wanted(),
                                                request.n_outputs, &ticket, &error),
              error);
    return ticket;
  }

  void expect_refused_submit(const std::string &what, Expected expected, Request &request) {
    bring_states(request);
    uint64_t ticket = 77;
    const Untouched untouched(ticket);
    expect_refused(what, expected, [&](bonsai_error *error) {
      return stage_.session.api.forward_submit(stage_.session.handle, &request.view, request.wanted(),
                                               request.n_outputs, &ticket, error);
    });
    untouched.expect_kept(what);
    for (const float logit : request.logits) expect(logit == 0, "{}: logits were written although it failed", what);
  }

  Stage &stage_;
  std::vector<uint32_t> blocks_;
};

void check_null_sessions(Stage &stage) {
  const bonsai_backend_api &api = stage.session.api;
  bonsai_session *const session = stage.session.handle;
  const std::vector<float> in(stage.config().hidden, 0.5f);
  Batch batch;
  batch.block_table = {{0}};
  batch.add(1, 0);
  const bonsai_batch view = batch.view();
  const auto layer = [&](bonsai_session *given, uint32_t index, const bonsai_batch *given_batch,
                         const float *given_in) {
    return [&api, given, index, given_batch, given_in](bonsai_error *error) {
      return api.layer_encode(given, index, given_batch, given_in, nullptr, error);
    };
  };
  expect_refused("layer_encode on no session", Expected::kInvalid, layer(nullptr, 0, &view, in.data()));
  expect_refused("layer_encode of no batch", Expected::kInvalid, layer(session, 0, nullptr, in.data()));
  expect_refused("layer_encode of a layer too many", Expected::kInvalid,
                 layer(session, stage.config().layers, &view, in.data()));
  expect_refused("layer_encode without a state", Expected::kInvalid, layer(session, 0, &view, nullptr));
  Outputs outputs = stage.outputs();
  outputs.logits(0);
  expect_refused("lm_head on no session", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.lm_head(nullptr, in.data(), 1, outputs.data(), 1, error); });
  expect_refused("lm_head without a state", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.lm_head(session, nullptr, 1, outputs.data(), 1, error); });
  if (stage.path != Path::kForward) return;
  uint64_t ticket = 0;
  expect_refused("forward_submit on no session", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.forward_submit(nullptr, &view, nullptr, 0, &ticket, error); });
  expect_refused("forward_submit of no batch", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.forward_submit(session, nullptr, nullptr, 0, &ticket, error); });
  expect_refused("forward_submit without a ticket", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.forward_submit(session, &view, nullptr, 0, nullptr, error); });
  expect_refused("forward_wait for no submit", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.forward_wait(session, 12345, error); });
}

// What a layer leaves is the state of its batch, and of no other.
void check_state_of_another_batch(Stage &stage, Requests &requests) {
  requests.run_layer();
  Batch one;
  one.block_table = {{0}};
  one.add(1, 0);
  const bonsai_batch view = one.view();
  expect_refused("layer_encode without a state, behind one of another number of tokens", Expected::kInvalid,
                 [&](bonsai_error *error) {
                   return stage.session.api.layer_encode(stage.session.handle, 1, &view, nullptr, nullptr, error);
                 });
}

// What a layer leaves is there until a layer leaves something else, also where it was handed out, for any number of
// lm_heads and behind refused calls; what lm_head is given by its caller takes its place, and is gone afterwards, also
// where nothing is computed of it. A submit leaves nothing.
void check_state_is_kept_and_gone(Stage &stage, Requests &requests) {
  std::vector<float> out(2 * stage.config().hidden);
  requests.run_layer(out.data());
  const bonsai_backend_api &api = stage.session.api;
  const std::vector<float> in(2 * stage.config().hidden, 0.5f);
  Outputs outputs = stage.outputs();
  outputs.logits(0);
  const auto head = [&](const float *given, uint32_t n_outputs = 1) {
    return [&, given, n_outputs](bonsai_error *error) {
      return api.lm_head(stage.session.handle, given, 2, outputs.data(), n_outputs, error);
    };
  };
  bonsai_error error = empty_error();
  expect_ok("lm_head of the state that a layer_encode with an out has left", head(nullptr)(&error), error);
  expect_refused("layer_encode of no batch", Expected::kInvalid, [&](bonsai_error *refused) {
    return api.layer_encode(stage.session.handle, 0, nullptr, in.data(), nullptr, refused);
  });
  expect_ok("lm_head of the same state, behind another lm_head and a refused layer_encode", head(nullptr)(&error),
            error);
  expect_ok("lm_head", head(in.data())(&error), error);
  expect_refused("lm_head without a state, behind one with rows of its own", Expected::kInvalid, head(nullptr));
  requests.run_layer();
  expect_ok("lm_head of no outputs", head(in.data(), 0)(&error), error);
  expect_refused("lm_head without a state, behind one with rows of its own and no outputs", Expected::kInvalid,
                 head(nullptr));
  if (stage.path != Path::kForward) return;
  requests.run();
  expect_refused("lm_head without a state, behind a submit", Expected::kInvalid, head(nullptr));
}

// Two submits are in flight at most, and each is waited for once, in their order.
void check_tickets(Stage &stage, Requests &requests) {
  if (stage.path != Path::kForward) return;
  const auto wait = [&stage](uint64_t ticket) {
    return [&stage, ticket](bonsai_error *error) {
      return stage.session.api.forward_wait(stage.session.handle, ticket, error);
    };
  };
  const uint64_t first = requests.submit_for_nothing(), second = requests.submit_for_nothing();
  requests.expect_no_third_submit();
  expect_refused("forward_wait for the second of two submits, before the first", Expected::kInvalid, wait(second));
  stage.session.wait(first);
  expect_refused("forward_wait for a submit that was waited for, with one in flight", Expected::kInvalid, wait(first));
  stage.session.wait(second);
  expect_refused("forward_wait for a submit that was waited for", Expected::kInvalid, wait(second));
}

void check_requests(Context &context) {
  context.need_sessions();
  Stage stage(context, narrow_shape(context.plainest_format()));
  check_null_sessions(stage);
  Requests requests(stage);
  requests.run();
  requests.expect_refused_batches(kBatches);
  if (stage.uploaded.spec.embedding) requests.expect_refused_batches(kTokens);
  requests.expect_refused_outputs(kOutputs);
  if (context.has(BONSAI_FEATURE_ADJUST)) requests.expect_refused_outputs(kAdjustments);
  check_state_of_another_batch(stage, requests);
  check_state_is_kept_and_gone(stage, requests);
  check_tickets(stage, requests);
}

// After refused batches the cache is what it was.
void check_unharmed(Context &context) {
  context.need_sessions();
  Stage stage(context, narrow_shape(context.plainest_format()));
  const std::vector<int32_t> tokens = stage.tokens(30);
  const std::vector<uint32_t> blocks = stage.take_blocks(30);
  const Logits expected = stage.judge(tokens);
  stage.session.logits(std::span(tokens).first(20), 0, blocks);
  Batch bad;
  bad.block_table = {blocks};
  bad.add(5, 3);
  bad.add(6, 4, 1);  // no such sequence
  const bonsai_batch view = bad.view();
  const std::vector<float> in(2 * stage.config().hidden, 0.5f);
  bonsai_status status = stage.session.api.layer_encode(stage.session.handle, 0, &view, in.data(), nullptr, nullptr);
  expect(status == BONSAI_INVALID_ARGUMENT, "layer_encode with a sequence that does not exist: status {}",
         status_name(status));
  if (stage.path == Path::kForward && stage.uploaded.spec.embedding) {
    uint64_t ticket = 0;
    status = stage.session.api.forward_submit(stage.session.handle, &view, nullptr, 0, &ticket, nullptr);
    expect(status == BONSAI_INVALID_ARGUMENT, "forward_submit with a sequence that does not exist: status {}",
           status_name(status));
  }
  Comparison comparison(stage.bound);
  comparison.add_rows("after a refused batch", stage.session.logits(std::span(tokens).subspan(20), 20, blocks),
                      expected, 20);
  comparison.finish("after a refused batch");
}

// -------- KV blocks

void check_kv_calls(Context &context) {
  context.need_sessions();
  const bonsai_backend_api &api = context.api();
  Stage stage(context, narrow_shape(context.plainest_format()));
  bonsai_session *const session = stage.session.handle;
  const uint32_t good = 0, beyond = stage.session.config.n_blocks;
  if (api.kv_copy) {
    const auto copy = [&](bonsai_session *given, const uint32_t *from, const uint32_t *to) {
      return [&api, given, from, to](bonsai_error *error) { return api.kv_copy(given, from, to, 1, error); };
    };
    expect_refused("kv_copy on no session", Expected::kInvalid, copy(nullptr, &good, &good));
    expect_refused("kv_copy from NULL", Expected::kInvalid, copy(session, nullptr, &good));
    expect_refused("kv_copy to NULL", Expected::kInvalid, copy(session, &good, nullptr));
    expect_refused("kv_copy from beyond the pool", Expected::kInvalid, copy(session, &beyond, &good));
    expect_refused("kv_copy to beyond the pool", Expected::kInvalid, copy(session, &good, &beyond));
    bonsai_error error = empty_error();
    expect_ok("kv_copy of no blocks", api.kv_copy(session, nullptr, nullptr, 0, &error), error);
  }
  if (!api.kv_export || !api.kv_import) return;
  const uint32_t tokens = stage.session.config.block_size;
  const uint64_t floats = 2ull * stage.config().layers * tokens * stage.config().kv_heads * stage.config().head_dim;
  const uint64_t bytes = stage.kv == BONSAI_KV_F32   ? floats * 4
                         : stage.kv == BONSAI_KV_F16 ? floats * 2
                                                     : floats / 32 * 34;
  std::vector<std::byte> data(bytes / tokens * (tokens + 1));  // what the largest of the ranges would take
  struct Range {
    const char *what;
    const uint32_t *blocks;
    uint32_t n_tokens;
    void *data;
    uint64_t bytes;
  };
  const Range ranges[] = {{"blocks that are NULL", nullptr, tokens, data.data(), bytes},
                          {"a block beyond the pool", &beyond, tokens, data.data(), bytes},
                          {"more tokens than blocks", &good, tokens + 1, data.data(), bytes / tokens * (tokens + 1)},
                          {"a byte too few", &good, tokens, data.data(), bytes - 1},
                          {"a byte too many", &good, tokens, data.data(), bytes + 1},
                          {"data that is NULL", &good, tokens, nullptr, bytes}};
  for (const Range &range : ranges) {
    expect_refused(std::string("kv_export with ") + range.what, Expected::kInvalid, [&](bonsai_error *error) {
      return api.kv_export(session, range.blocks, 1, range.n_tokens, range.data, range.bytes, error);
    });
    expect_refused(std::string("kv_import with ") + range.what, Expected::kInvalid, [&](bonsai_error *error) {
      return api.kv_import(session, range.blocks, 1, range.n_tokens, range.data, range.bytes, error);
    });
  }
  bonsai_error error = empty_error();
  expect_ok("kv_export of no tokens", api.kv_export(session, nullptr, 0, 0, nullptr, 0, &error), error);
  expect_ok("kv_import of no tokens", api.kv_import(session, nullptr, 0, 0, nullptr, 0, &error), error);
  const bool untouched = std::all_of(data.begin(), data.end(), [](std::byte byte) { return byte == std::byte{0}; });
  expect(untouched, "kv_export wrote although it failed");
}

}  // namespace

void add_session_argument_checks(std::vector<Check> &checks) {
  checks.push_back({"arguments.batches", "bad batches and outputs are refused and change nothing", check_requests});
  checks.push_back({"arguments.unharmed", "a refused batch leaves the KV cache as it was", check_unharmed});
  checks.push_back({"arguments.kv", "bad copies, exports and imports are refused and change nothing", check_kv_calls});
}

}  // namespace bonsai::check
