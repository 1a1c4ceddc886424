#include "tools/plugin-check/struct_checks.h"

#include <optional>
#include <string_view>
#include <vector>

#include "tools/plugin-check/grown.h"
#include "tools/plugin-check/matrix.h"
#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

// To a backend that knows more than this program, what is behind the fields known here is no junk.
void skip_if_newer(const Context &context) {
  skip_unless(!context.is_newer(), "the backend speaks version {}.{} in a table of {} bytes, this program {}.{} in {}",
              BONSAI_ABI_MAJOR, context.api().abi_minor, context.api().struct_size, BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR,
              sizeof(bonsai_backend_api));
}

// -------- Devices

void check_errors(Context &context) {
  Grown<bonsai_error> error;
  bonsai_device_info info{};
  info.struct_size = sizeof info;
  const bonsai_status status = context.api().device_info(0xFFFFFFFFu, &info, error.get());
  expect(
      status == BONSAI_INVALID_ARGUMENT && error->code == status,
      "device_info of device 4294967295 with a longer error: status {} and code {}, expected BONSAI_INVALID_ARGUMENT",
      status_name(status), error->code);
  error.expect_kept("device_info's error");
}

void check_info(Context &context) {
  Grown<bonsai_device_info> info;
  bonsai_error error = empty_error();
  expect_ok("device_info into a longer struct", context.api().device_info(context.plugin().device, info.get(), &error),
            error);
  info.expect_kept("device_info");
  expect(info->name && info->name == std::string_view(context.info().name) && info->max_k == context.info().max_k,
         "device_info says something else in a longer struct");
}

void check_open(Context &context) {
  GrownArray<bonsai_option> options;
  for (const host::DeviceOption &option : context.plugin().options) {
    options.add({sizeof(bonsai_option), option.key.c_str(), option.value.c_str()});
  }
  Grown<bonsai_device_config> config;
  config->n_options = options.size();
  config->options = options.data();
  bonsai_device *device = nullptr;
  bonsai_error error = empty_error();
  expect_ok("device_open with longer structs",
            context.api().device_open(context.plugin().device, config.get(), &device, &error), error);
  context.api().device_close(device);
}

void check_states(Context &context) {
  const bonsai_backend_api &api = context.api();
  bonsai_error error = empty_error();
  if (api.device_status) {
    Grown<bonsai_device_status> status;
    expect_ok("device_status into a longer struct", api.device_status(context.device().handle(), status.get(), &error),
              error);
    status.expect_kept("device_status");
  }
  if (!api.profile) return;
  Grown<bonsai_profile> profile;
  expect_ok("profile into a longer struct",
            api.profile(context.device().handle(), BONSAI_PROFILE_READ, profile.get(), &error), error);
  profile.expect_kept("profile");
}

void check_devices(Context &context) {
  skip_if_newer(context);
  check_errors(context);
  check_info(context);
  check_open(context);
  check_states(context);
}

// -------- Weights

// A weight on the device for the time of a check.
class UploadedWeight {
 public:
  UploadedWeight(Context &context, const bonsai_weight_desc &desc, bonsai_weight_result *result) : context_(context) {
    bonsai_error error = empty_error();
    expect_ok("weight_upload of longer structs",
              context.api().weight_upload(context.device().handle(), &desc, &handle_, result, &error), error);
  }
  ~UploadedWeight() { context_.api().weight_free(context_.device().handle(), handle_); }
  UploadedWeight(const UploadedWeight &) = delete;
  UploadedWeight &operator=(const UploadedWeight &) = delete;
  const bonsai_weight *handle() const { return handle_; }

 private:
  Context &context_;
  bonsai_weight *handle_ = nullptr;
};

void check_weights(Context &context) {
  skip_if_newer(context);
  Random random(1);
  constexpr uint64_t kColumns = 256;
  std::vector<Matrix> matrices;
  std::vector<host::Weight::Part> plain;
  uint64_t rows = 0;
  GrownArray<bonsai_weight_part> parts;
  for (const uint64_t n : {3, 5, 2}) {
    matrices.push_back(make_matrix(context.plainest_format(), n, kColumns, Pattern::kRandom, random));
    rows += n;
  }
  for (const Matrix &matrix : matrices) {
    plain.push_back({static_cast<bonsai_dtype>(matrix.format), matrix.rows, matrix.blocks()});
    parts.add({.struct_size = 0,
               .dtype = static_cast<bonsai_dtype>(matrix.format),
               .rows = matrix.rows,
               .data = matrix.blocks().data(),
               .data_bytes = matrix.blocks().size()});
  }
  // What is refused below is refused for its form.
  value_if_served(host::Weight::upload(context.device(), "w", kColumns, plain, BONSAI_USE_MATRIX, false));
  Grown<bonsai_weight_desc> desc;
  desc->uses = BONSAI_USE_MATRIX;
  desc->n_parts = parts.size();
  desc->columns = kColumns;
  desc->parts = parts.data();
  Grown<bonsai_weight_result> result;
  const UploadedWeight weight(context, *desc.get(), result.get());
  result.expect_kept("weight_upload's result");

  const std::vector<float> x = make_vectors(1, kColumns, VectorPattern::kRandom, random);
  std::vector<float> y(rows);
  Grown<bonsai_gemv_args> args;
  args->n = 1;
  args->weight = weight.handle();
  args->rows = rows;
  args->x = x.data();
  args->y = y.data();
  bonsai_error error = empty_error();
  expect_ok("gemv with longer arguments", context.api().gemv(context.device().handle(), args.get(), &error), error);
  ProductError sum;
  for (uint64_t first = 0, i = 0; i < matrices.size(); first += matrices[i++].rows) {
    sum.add(matrices[i], 0, x, std::span(y).subspan(first, matrices[i].rows));
  }
  expect(sum.total() <= error_bound(matrices[0].format),
         "a weight whose parts are longer structs: its product's relative error is {:.2e}", sum.total());
}

// -------- Sessions

// A model's specification in longer structs.
class GrownModel {
 public:
  explicit GrownModel(const bonsai_model_spec &spec) : spec_(spec) {
    for (uint32_t i = 0; i < spec.n_layers; ++i) {
      bonsai_layer_spec &layer = layers_.add(*spec.layers[i]);
      for (const bonsai_weight_slice **slice :
           {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
        *slice = grown(*slice);
      }
    }
    spec_->layers = layers_.data();
    spec_->embedding = grown(spec.embedding);
    spec_->head = grown(spec.head);
  }
  const bonsai_model_spec &get() { return *spec_.get(); }

 private:
  const bonsai_weight_slice *grown(const bonsai_weight_slice *slice) { return slice ? &slices_.add(*slice) : nullptr; }

  Grown<bonsai_model_spec> spec_;
  GrownArray<bonsai_layer_spec> layers_;
  GrownArray<bonsai_weight_slice> slices_;
};

void check_memory(Context &context, GrownModel &model, const bonsai_session_config &config) {
  Grown<bonsai_session_memory> memory;
  bonsai_error error = empty_error();
  expect_ok("session_memory of longer structs",
            context.api().session_memory(context.device().handle(), &model.get(), &config, memory.get(), &error),
            error);
  memory.expect_kept("session_memory");
}

// Runs a batch on the session, by the stage's path, all in longer structs.
void run_batch(const Stage &stage, bonsai_session *session, Batch &batch, const Outputs &outputs) {
  const bonsai_backend_api &api = stage.session.api;
  const std::vector<float> states = embed(stage.random.model(), batch.tokens);
  Grown<bonsai_batch> grown(batch.view());
  GrownArray<bonsai_output> wanted;
  for (uint32_t i = 0; i < outputs.size(); ++i) wanted.add(*outputs.data()[i]);
  bonsai_error error = empty_error();
  if (stage.path == Path::kForward) {
    if (!stage.uploaded.spec.embedding) grown->tokens = nullptr, grown->hidden = states.data();
    uint64_t ticket = 0;
    expect_ok("forward_submit of longer structs",
              api.forward_submit(session, grown.get(), wanted.data(), wanted.size(), &ticket, &error), error);
    return expect_ok("forward_wait", api.forward_wait(session, ticket, &error), error);
  }
  for (uint32_t layer = 0; layer < stage.config().layers; ++layer) {
    const float *in = layer == 0 ? states.data() : nullptr;
    expect_ok("layer_encode of a longer batch", api.layer_encode(session, layer, grown.get(), in, nullptr, &error),
              error);
  }
  expect_ok("lm_head of longer outputs",
            api.lm_head(session, nullptr, batch.size(), wanted.data(), wanted.size(), &error), error);
}

void check_sessions(Context &context) {
  skip_if_newer(context);
  context.need_sessions();
  Stage stage(context, narrow_shape(context.plainest_format()));
  GrownModel model(stage.uploaded.spec);
  Grown<bonsai_session_config> config(stage.session.config);
  check_memory(context, model, *config.get());
  std::optional<Session> session;
  expect_served_all_the_same("what is served in structs of this version",
                             [&] { session.emplace(stage.uploaded, *config.get(), stage.path, model.get()); });
  Batch batch;
  batch.block_table = {stage.take_blocks(5)};
  const std::vector<int32_t> tokens = stage.tokens(5);
  Outputs outputs = stage.outputs();
  for (uint32_t i = 0; i < tokens.size(); ++i) batch.add(tokens[i], i);
  for (const uint32_t token : {4u, 0u, 2u}) outputs.logits(token);
  run_batch(stage, session->handle, batch, outputs);
  const Logits expected = stage.judge(tokens);
  Comparison comparison(stage.bound);
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const uint32_t token = outputs.data()[i]->token;
    comparison.add(fmt::format("output {} of longer structs", i), outputs[i].logits, expected[token]);
  }
  comparison.finish("a session made and run with longer structs");
}

}  // namespace

void add_struct_checks(std::vector<Check> &checks) {
  checks.push_back(
      {"structs.devices", "a newer host's structs are read as far as they are known, and no further", check_devices});
  checks.push_back({"structs.weights", "the same of weights, parts that lie apart, and products", check_weights});
  checks.push_back({"structs.sessions", "the same of models, sessions, batches and outputs", check_sessions});
}

}  // namespace bonsai::check
