#include "tools/plugin-check/creation_argument_checks.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/plugin-check/random_model.h"
#include "tools/plugin-check/refusal.h"
#include "tools/plugin-check/session.h"

namespace bonsai::check {
namespace {

struct Creation {
  UploadedModel &model;
  bonsai_session_config config;
  uint32_t unlisted_block_size;

  bonsai_model_spec &spec() { return model.spec; }
  bonsai_layer_spec &layer() { return model.layers[0]; }
  // The slice that the first layer's Q names, to be broken.
  bonsai_weight_slice &q() { return model.slices[0]; }
};

// Of shapes and sizes, which session_memory is asked about, too.
constexpr Mistake<Creation> kSizes[] = {
    {"an unknown feature", Expected::kUnsupported, [](Creation &c) { c.spec().features = 1u << 31; }},
    {"no layers", Expected::kInvalid, [](Creation &c) { c.spec().n_layers = 0; }},
    {"KV heads that do not divide the heads", Expected::kEither, [](Creation &c) { c.spec().n_kv_heads = 3; }},
    {"no KV heads", Expected::kEither, [](Creation &c) { c.spec().n_kv_heads = 0; }},
    {"an odd head dimension", Expected::kEither, [](Creation &c) { --c.spec().head_dim; }},
    {"an odd rope dimension", Expected::kEither, [](Creation &c) { --c.spec().rope_dim; }},
    {"a rope dimension beyond the head's", Expected::kEither, [](Creation &c) { c.spec().rope_dim += 2; }},
    {"a model whose reserved field is set", Expected::kInvalid, [](Creation &c) { c.spec().reserved = 1; }},
    {"a short model", Expected::kInvalid, [](Creation &c) { c.spec().struct_size = 16; }},
    {"an unknown KV dtype", Expected::kUnsupported, [](Creation &c) { c.config.kv_dtype = 77; }},
    {"a block size that is not listed", Expected::kEither,
     [](Creation &c) { c.config.block_size = c.unlisted_block_size; }},
    {"no blocks", Expected::kInvalid, [](Creation &c) { c.config.n_blocks = 0; }},
    {"no tokens", Expected::kInvalid, [](Creation &c) { c.config.max_tokens = 0; }},
    {"no sequences", Expected::kInvalid, [](Creation &c) { c.config.max_sequences = 0; }},
    {"no blocks for a sequence", Expected::kInvalid, [](Creation &c) { c.config.max_blocks_per_sequence = 0; }},
    {"a head without outputs", Expected::kInvalid, [](Creation &c) { c.config.max_outputs = 0; }},
    {"a k beyond the device's", Expected::kEither, [](Creation &c) { c.config.max_k = 1u << 30; }},
    {"a k beyond the vocabulary", Expected::kInvalid, [](Creation &c) { c.config.max_k = c.spec().vocab + 1; }},
    {"a configuration whose reserved field is set", Expected::kInvalid, [](Creation &c) { c.config.reserved = 1; }},
    {"a short configuration", Expected::kInvalid, [](Creation &c) { c.config.struct_size = 16; }},
};

// Of what the model points at.
constexpr Mistake<Creation> kContents[] = {
    {"layers that are NULL", Expected::kInvalid, [](Creation &c) { c.spec().layers = nullptr; }},
    {"no cosines", Expected::kInvalid, [](Creation &c) { c.spec().rope_cos = nullptr; }},
    {"no sines", Expected::kInvalid, [](Creation &c) { c.spec().rope_sin = nullptr; }},
    {"another width than the weights'", Expected::kInvalid, [](Creation &c) { c.spec().hidden *= 2; }},
    {"a head without an output norm", Expected::kInvalid, [](Creation &c) { c.spec().output_norm = nullptr; }},
    {"an output norm without a head", Expected::kInvalid, [](Creation &c) { c.spec().head = nullptr; }},
    {"another vocabulary than the head's", Expected::kInvalid, [](Creation &c) { --c.spec().vocab; }},
    {"an unknown kind of layer", Expected::kUnsupported, [](Creation &c) { c.layer().kind = 77; }},
    {"a short layer", Expected::kInvalid, [](Creation &c) { c.layer().struct_size = 16; }},
    {"no attention norm", Expected::kInvalid, [](Creation &c) { c.layer().attn_norm = nullptr; }},
    {"no feed-forward norm", Expected::kInvalid, [](Creation &c) { c.layer().ffn_norm = nullptr; }},
    {"no Q", Expected::kInvalid, [](Creation &c) { c.layer().q = nullptr; }},
    {"no down projection", Expected::kInvalid, [](Creation &c) { c.layer().down = nullptr; }},
    {"K in the place of Q", Expected::kInvalid, [](Creation &c) { c.layer().q = c.layer().k; }},
    {"a slice without a weight", Expected::kInvalid, [](Creation &c) { c.q().weight = nullptr; }},
    {"a slice beyond its weight", Expected::kInvalid, [](Creation &c) { c.q().first_row = 1000000; }},
    {"a slice whose reserved field is set", Expected::kInvalid, [](Creation &c) { c.q().reserved = 1; }},
    {"a short slice", Expected::kInvalid, [](Creation &c) { c.q().struct_size = 8; }},
};

uint32_t unlisted_block_size(const Context &context) {
  const std::vector<uint32_t> &sizes = context.info().block_sizes;
  uint32_t size = 1;
  while (std::find(sizes.begin(), sizes.end(), size) != sizes.end()) ++size;
  return size;
}

bonsai_session *no_session() { return reinterpret_cast<bonsai_session *>(uintptr_t{0x5AA5}); }

void check_created_from_nothing(Context &context, UploadedModel &uploaded) {
  const bonsai_backend_api &api = context.api();
  bonsai_device *const device = context.device().handle();
  const bonsai_session_config config = usual_config(context, context.plainest_kv());
  bonsai_session *session = no_session();
  const Untouched untouched(session);
  expect_refused("session_create on no device", Expected::kInvalid, [&](bonsai_error *error) {
    return api.session_create(nullptr, &uploaded.spec, &config, &session, error);
  });
  expect_refused("session_create without a model", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.session_create(device, nullptr, &config, &session, error); });
  expect_refused("session_create without a configuration", Expected::kInvalid, [&](bonsai_error *error) {
    return api.session_create(device, &uploaded.spec, nullptr, &session, error);
  });
  untouched.expect_kept("session_create");
  expect_refused("session_create into NULL", Expected::kInvalid, [&](bonsai_error *error) {
    return api.session_create(device, &uploaded.spec, &config, nullptr, error);
  });
  bonsai_session_memory memory{};
  memory.struct_size = sizeof memory;
  const Untouched untouched_memory(memory);
  expect_refused("session_memory on no device", Expected::kInvalid, [&](bonsai_error *error) {
    return api.session_memory(nullptr, &uploaded.spec, &config, &memory, error);
  });
  expect_refused("session_memory without a model", Expected::kInvalid,
                 [&](bonsai_error *error) { return api.session_memory(device, nullptr, &config, &memory, error); });
  expect_refused("session_memory without a configuration", Expected::kInvalid, [&](bonsai_error *error) {
    return api.session_memory(device, &uploaded.spec, nullptr, &memory, error);
  });
  untouched_memory.expect_kept("session_memory");
  expect_refused("session_memory into NULL", Expected::kInvalid, [&](bonsai_error *error) {
    return api.session_memory(device, &uploaded.spec, &config, nullptr, error);
  });
  api.session_destroy(nullptr);
}

// Without a head there are no outputs, and what the configuration says of them means nothing.
void check_created_without_a_head(Context &context, UploadedModel &uploaded) {
  bonsai_session_config config = usual_config(context, context.plainest_kv());
  config.max_k = 1u << 30;
  config.max_outputs = 0;
  const bonsai_model_spec spec = uploaded.spec;
  uploaded.spec.head = nullptr;
  uploaded.spec.output_norm = nullptr;
  uploaded.spec.vocab = 0;
  const Session session(uploaded, config, Path::kLayers);
  uploaded.spec = spec;
  const std::vector<float> in(spec.hidden, 0.5f);
  Outputs outputs(spec.vocab, spec.hidden);
  outputs.hidden_state(0);
  expect_refused("lm_head of a session without a head", Expected::kInvalid, [&](bonsai_error *error) {
    return context.api().lm_head(session.handle, in.data(), 1, outputs.data(), outputs.size(), error);
  });
}

// Where a k of 0 is the largest, nobody will ask for TOP_K.
void check_created_without_top_k(Context &context, UploadedModel &uploaded) {
  bonsai_session_config config = usual_config(context, context.plainest_kv());
  config.max_k = 0;
  expect_served_all_the_same("what is served with a max_k of 64", [&] { Session(uploaded, config, Path::kLayers); });
}

// Each mistake by itself, in the call of `function` that `call` makes and judges.
template <size_t n, class Call>
void expect_refused_creations(Context &context, UploadedModel &uploaded, const Mistake<Creation> (&mistakes)[n],
                              const char *function, const Call &call) {
  const bonsai_model_spec spec = uploaded.spec;
  const bonsai_layer_spec layer = uploaded.layers[0];
  const bonsai_weight_slice q = uploaded.slices[0];
  for (const auto &mistake : mistakes) {
    Creation creation = {uploaded, usual_config(context, context.plainest_kv()), unlisted_block_size(context)};
    mistake.make(creation);
    call(fmt::format("{} with {}", function, mistake.what), mistake.expected, creation.config);
    uploaded.spec = spec;
    uploaded.layers[0] = layer;
    uploaded.slices[0] = q;
  }
}

void check_creations(Context &context) {
  context.need_sessions();
  const RandomModel random(narrow_shape(context.plainest_format()));
  UploadedModel uploaded(context.device(), random.model(), {.embedding = false});
  // What is refused below is refused for its mistake.
  Session(uploaded, usual_config(context, context.plainest_kv()), Path::kLayers);
  const auto create = [&](const std::string &what, Expected expected, const bonsai_session_config &config) {
    bonsai_session *session = no_session();
    const Untouched untouched(session);
    expect_refused(what, expected, [&](bonsai_error *error) {
      const bonsai_status status =
          context.api().session_create(context.device().handle(), &uploaded.spec, &config, &session, error);
      if (status == BONSAI_OK) context.api().session_destroy(session);  // which fails the check, and leaves nothing
      return status;
    });
    untouched.expect_kept(what);
  };
  const auto size = [&](const std::string &what, Expected expected, const bonsai_session_config &config) {
    bonsai_session_memory memory{};
    memory.struct_size = sizeof memory;
    const Untouched untouched(memory);
    expect_refused(what, expected, [&](bonsai_error *error) {
      return context.api().session_memory(context.device().handle(), &uploaded.spec, &config, &memory, error);
    });
    untouched.expect_kept(what);
  };
  expect_refused_creations(context, uploaded, kSizes, "session_create", create);
  expect_refused_creations(context, uploaded, kContents, "session_create", create);
  expect_refused_creations(context, uploaded, kSizes, "session_memory", size);
  check_created_from_nothing(context, uploaded);
  check_created_without_a_head(context, uploaded);
  check_created_without_top_k(context, uploaded);
  const uint64_t bytes = status_of(context.device()).session_bytes;
  expect(bytes == 0, "device_status says {} bytes of sessions, but every session was refused or is gone", bytes);
}

}  // namespace

void add_creation_argument_checks(std::vector<Check> &checks) {
  checks.push_back(
      {"arguments.sessions", "bad models and configurations are refused and change nothing", check_creations});
}

}  // namespace bonsai::check
