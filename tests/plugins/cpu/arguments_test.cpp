// Bad devices, weights, models and configurations: each is answered with a status and one line that says what was
// wrong, and changes nothing.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "core/quant/format.h"
#include "tests/plugins/cpu/backend_support.h"

namespace bonsai::test {
namespace {

// -------- Devices

bonsai_status open_with(const char *key, const char *value, bonsai_error *error) {
  const bonsai_option option = {sizeof option, key, value};
  const bonsai_option *options = &option;
  bonsai_device_config config{};
  config.struct_size = sizeof config;
  config.n_options = 1;
  config.options = &options;
  bonsai_device *device = nullptr;
  const bonsai_status status = load_backend(kPlugin).device_open(0, &config, &device, error);
  EXPECT_EQ(device, nullptr);
  return status;
}

TEST(DeviceArguments, OptionsAreNamedInTheMessage) {
  BONSAI_EXPECT_FAILS(open_with("cpu.speed", "9", &error), BONSAI_UNSUPPORTED,
                      "unknown option cpu.speed, expected cpu.threads, cpu.isa, cpu.prefetch or cpu.mapped");
  for (const char *value : {"0", "-1", "1025", "two", "2x", "", "99999999999"}) {
    const std::string expected = std::string("cpu.threads is '") + value + "', expected a number from 1 to 1024";
    BONSAI_EXPECT_FAILS(open_with("cpu.threads", value, &error), BONSAI_INVALID_ARGUMENT, expected.c_str());
  }
  BONSAI_EXPECT_FAILS(open_with("cpu.threads", nullptr, &error), BONSAI_INVALID_ARGUMENT,
                      "the value of option cpu.threads is NULL");
  BONSAI_EXPECT_FAILS(open_with(nullptr, "1", &error), BONSAI_INVALID_ARGUMENT, "option->key is NULL");
  for (const char *value : {"", "l3", "L1", "l1,l2"}) {
    const std::string expected =
        std::string("cpu.prefetch is '") + value + "', expected auto, l1, l2, l2-late or l2-two";
    BONSAI_EXPECT_FAILS(open_with("cpu.prefetch", value, &error), BONSAI_INVALID_ARGUMENT, expected.c_str());
  }
  for (const char *value : {"", "yes", "ON", "copied"}) {
    const std::string expected = std::string("cpu.mapped is '") + value + "', expected auto, on or off";
    BONSAI_EXPECT_FAILS(open_with("cpu.mapped", value, &error), BONSAI_INVALID_ARGUMENT, expected.c_str());
  }
  bonsai_error error = empty_error();
  EXPECT_EQ(open_with("cpu.isa", "sse9", &error), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(error.message).find("cpu.isa is 'sse9': expected one of auto, "), 0u) << error.message;
}

// Whatever the caller has written, which it quotes.
TEST(DeviceArguments, MessagesAreLinesOfUtf8) {
  const auto expected = [](const std::string &shown) {
    return "cpu.threads is '" + shown + "', expected a number from 1 to 1024";
  };
  for (const auto &[value, shown] : {std::pair("a\nb\t\x7f", "a?b??"),
                                     {"\xff\xc3(\xe2\x82",
                                      "??"
                                      "(??"},
                                     {"\u20ac\u0085", "\u20ac??"}})
    BONSAI_EXPECT_FAILS(open_with("cpu.threads", value, &error), BONSAI_INVALID_ARGUMENT, expected(shown).c_str());
  std::string long_value;
  for (int i = 0; i < 400; ++i) long_value += "\u20ac";
  for (int shift = 0; shift < 3; ++shift, long_value = "x" + long_value) {
    bonsai_error error = empty_error();
    EXPECT_EQ(open_with("cpu.threads", long_value.c_str(), &error), BONSAI_INVALID_ARGUMENT);
    const std::string message = error.message, begin = "cpu.threads is '" + std::string(shift, 'x') + "\u20ac";
    EXPECT_EQ(message.substr(0, begin.size()), begin);
    EXPECT_TRUE(message.ends_with("\u20ac")) << "cut within a character: " << message;
    EXPECT_GE(message.size() + 3, sizeof error.message - 1) << "less than fits";
  }
}

TEST(DeviceArguments, EveryCacheThatIsListedIsTaken) {
  for (const char *value : {"auto", "l1", "l2", "l2-late", "l2-two"}) {
    const OpenDevice device(kPlugin, {{"cpu.prefetch", value}});
    EXPECT_NE(device.handle, nullptr) << value;
  }
}

TEST(DeviceArguments, IndexAndStructsAreChecked) {
  const bonsai_backend_api &api = load_backend(kPlugin);
  uint32_t count = 0;
  EXPECT_EQ(api.device_count(&count, nullptr), BONSAI_OK);
  EXPECT_EQ(count, 1u);
  BONSAI_EXPECT_FAILS(api.device_count(nullptr, &error), BONSAI_INVALID_ARGUMENT, "count is NULL");
  bonsai_device_info info{};
  info.struct_size = sizeof info;
  BONSAI_EXPECT_FAILS(api.device_info(1, &info, &error), BONSAI_INVALID_ARGUMENT,
                      "device index is 1, expected less than 1");
  BONSAI_EXPECT_FAILS(api.device_info(0, nullptr, &error), BONSAI_INVALID_ARGUMENT, "info is NULL");
  info.struct_size = 8;
  const std::string expected = "info: struct_size is 8, expected at least " + std::to_string(sizeof info);
  BONSAI_EXPECT_FAILS(api.device_info(0, &info, &error), BONSAI_INVALID_ARGUMENT, expected.c_str());
  BONSAI_EXPECT_FAILS(api.device_open(0, nullptr, nullptr, &error), BONSAI_INVALID_ARGUMENT, "device is NULL");
  BONSAI_EXPECT_FAILS(api.synchronize(nullptr, &error), BONSAI_INVALID_ARGUMENT, "device is NULL");
}

TEST(DeviceArguments, ActionAndStructOfAProfileAreChecked) {
  const bonsai_backend_api &api = load_backend(kPlugin);
  BONSAI_EXPECT_FAILS(api.profile(nullptr, BONSAI_PROFILE_READ, nullptr, &error), BONSAI_INVALID_ARGUMENT,
                      "device is NULL");
  bonsai_device_config config{};
  config.struct_size = sizeof config;
  bonsai_device *device = nullptr;
  ASSERT_EQ(api.device_open(0, &config, &device, nullptr), BONSAI_OK);
  BONSAI_EXPECT_FAILS(api.profile(device, 3, nullptr, &error), BONSAI_UNSUPPORTED, "action is 3, expected 0 to 2");
  bonsai_profile profile{};
  profile.struct_size = 8;
  BONSAI_EXPECT_FAILS(api.profile(device, BONSAI_PROFILE_READ, &profile, &error), BONSAI_INVALID_ARGUMENT,
                      "profile: struct_size is 8, expected at least 16");
  profile.struct_size = sizeof profile;
  EXPECT_EQ(api.profile(device, BONSAI_PROFILE_START, nullptr, nullptr), BONSAI_OK);
  EXPECT_EQ(api.profile(device, BONSAI_PROFILE_STOP, &profile, nullptr), BONSAI_OK);
  EXPECT_EQ(profile.n_phases, 0u);
  api.device_close(device);
}

TEST(DeviceArguments, InfoSaysWhatTheBackendOffers) {
  const bonsai_backend_api &api = load_backend(kPlugin);
  EXPECT_STREQ(api.name, "cpu");
  EXPECT_EQ(api.priority, 0);
  bonsai_device_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(api.device_info(0, &info, nullptr), BONSAI_OK);
  EXPECT_EQ(info.features, BONSAI_FEATURE_ADJUST | BONSAI_FEATURE_TOKEN_CHAINING | BONSAI_FEATURE_DETERMINISTIC |
                               BONSAI_FEATURE_BORROWS);
  EXPECT_STRNE(info.name, "");
  EXPECT_GT(info.memory_total_bytes, info.memory_free_bytes);
  EXPECT_GT(info.memory_free_bytes, 0u);
  EXPECT_EQ(info.max_k, 1024u);
  EXPECT_EQ(info.block_sizes[0], 32u);
  EXPECT_EQ(info.kv_dtypes[0], bonsai_kv_dtype{BONSAI_KV_F16});
  EXPECT_STREQ(info.options[0]->key, "cpu.threads");
  EXPECT_STREQ(info.options[1]->key, "cpu.isa");
  EXPECT_STREQ(info.options[2]->key, "cpu.prefetch");
  EXPECT_STREQ(info.options[3]->key, "cpu.mapped");
}

TEST(DeviceArguments, AnErrorIsFilledAsFarAsItsSizeReaches) {
  const bonsai_backend_api &api = load_backend(kPlugin);
  bonsai_error error = empty_error();
  error.struct_size = 8;
  error.message[0] = 'x';
  EXPECT_EQ(api.device_count(nullptr, &error), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(error.code, bonsai_status{BONSAI_INVALID_ARGUMENT});
  EXPECT_EQ(error.message[0], 'x');
  const std::string long_key(600, 'k');
  EXPECT_EQ(open_with(long_key.c_str(), "1", &(error = empty_error())), BONSAI_UNSUPPORTED);
  EXPECT_EQ(std::string(error.message).size(), sizeof error.message - 1);
}

// -------- Weights

class WeightArguments : public testing::Test {
 protected:
  WeightArguments() {
    part.struct_size = sizeof part;
    part.dtype = BONSAI_DTYPE_Q8_0;
    part.rows = 2;
    part.data = data.data();
    part.data_bytes = data.size();
    desc.struct_size = sizeof desc;
    desc.uses = BONSAI_USE_MATRIX;
    desc.n_parts = 1;
    desc.columns = 64;
    desc.parts = &parts;
    desc.name = "w";
  }
  bonsai_status upload(bonsai_error *error) {
    bonsai_weight *weight = nullptr;
    const bonsai_status status = device.api.weight_upload(device.handle, &desc, &weight, nullptr, error);
    EXPECT_EQ(weight, nullptr);
    return status;
  }

  OpenDevice device{kPlugin};
  std::vector<std::byte> data = std::vector<std::byte>(2 * 2 * 34);
  bonsai_weight_part part{};
  const bonsai_weight_part *parts = &part;
  bonsai_weight_desc desc{};
};

TEST_F(WeightArguments, EveryFieldIsChecked) {
  desc.flags = 2;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_UNSUPPORTED, "w: unknown flags 0x2");
  desc.flags = 0;
  desc.uses = 8;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_UNSUPPORTED, "w: unknown uses 0x8");
  desc.uses = 0;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT, "w: uses is 0, expected at least one");
  desc.uses = BONSAI_USE_MATRIX;
  desc.n_parts = 0;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT, "w: n_parts is 0, expected at least 1");
  desc.n_parts = 1;
  desc.columns = 0;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT, "w: columns is 0, expected at least 1");
  desc.columns = uint64_t{1} << 32;  // sizes in bytes would leave 64 bits not far beyond
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_UNSUPPORTED, "w: columns is 4294967296, expected at most 4294967295");
  desc.columns = 63;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT,
                      "w: 63 columns are not whole blocks of Q8_0, which has 32");
  desc.columns = 64;
  part.dtype = 99;
  const std::string unknown = "w: unknown dtype 99, expected 0 to " + std::to_string(quant::formats().size() - 1);
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_UNSUPPORTED, unknown.c_str());
  part.dtype = BONSAI_DTYPE_Q8_0;
  part.rows = 0;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT, "w: a part has 0 rows, expected at least 1");
  part.rows = uint64_t{1} << 62;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT,
                      "w: data_bytes is 136, expected 4611686018427387904 rows of 64 columns in Q8_0");
  part.rows = 2;
  part.data = nullptr;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT, "w: a part's data is NULL");
  desc.parts = nullptr;
  BONSAI_EXPECT_FAILS(upload(&error), BONSAI_INVALID_ARGUMENT, "w: parts is NULL");
  EXPECT_EQ(device.status().weight_bytes, 0u);
}

TEST_F(WeightArguments, SupportIsAnsweredForEveryNumber) {
  const auto n_formats = static_cast<bonsai_dtype>(quant::formats().size());
  bonsai_weight_use uses = 99;
  for (bonsai_dtype dtype = 0; dtype < n_formats; ++dtype) {
    ASSERT_EQ(device.api.dtype_support(device.handle, dtype, &uses, nullptr), BONSAI_OK);
    EXPECT_EQ(uses, BONSAI_USE_EMBEDDING | BONSAI_USE_MATRIX) << dtype;
  }
  ASSERT_EQ(device.api.dtype_support(device.handle, n_formats, &uses, nullptr), BONSAI_OK);
  EXPECT_EQ(uses, 0u);
}

TEST_F(WeightArguments, GemvChecksRowsAndUse) {
  bonsai_weight *weight = nullptr, *embedding = nullptr;
  ASSERT_EQ(device.api.weight_upload(device.handle, &desc, &weight, nullptr, nullptr), BONSAI_OK);
  desc.uses = BONSAI_USE_EMBEDDING;
  ASSERT_EQ(device.api.weight_upload(device.handle, &desc, &embedding, nullptr, nullptr), BONSAI_OK);
  std::vector<float> x(64), y(2);
  bonsai_gemv_args args = {
      .struct_size = sizeof args, .n = 1, .weight = weight, .first_row = 0, .rows = 2, .x = x.data(), .y = y.data()};
  const auto gemv = [&](bonsai_error *error) { return device.api.gemv(device.handle, &args, error); };
  EXPECT_EQ(gemv(nullptr), BONSAI_OK);
  args.first_row = 1;
  BONSAI_EXPECT_FAILS(gemv(&error), BONSAI_INVALID_ARGUMENT, "rows 1 to 3 reach beyond the weight's 2");
  args.rows = 0;
  BONSAI_EXPECT_FAILS(gemv(&error), BONSAI_INVALID_ARGUMENT, "args->rows is 0, expected at least 1");
  args.first_row = 0;
  args.rows = 2;
  args.n = 0;
  BONSAI_EXPECT_FAILS(gemv(&error), BONSAI_INVALID_ARGUMENT, "args->n is 0, expected at least 1");
  args.n = 1;
  args.x = nullptr;
  BONSAI_EXPECT_FAILS(gemv(&error), BONSAI_INVALID_ARGUMENT, "args->x is NULL");
  args.x = x.data();
  args.weight = embedding;
  BONSAI_EXPECT_FAILS(gemv(&error), BONSAI_INVALID_ARGUMENT, "the weight was not uploaded for BONSAI_USE_MATRIX");
  device.api.weight_free(device.handle, weight);
  device.api.weight_free(device.handle, embedding);
  device.api.weight_free(device.handle, nullptr);
}

// -------- Sessions

class SessionArguments : public testing::Test {
 protected:
  // Changes the spec or the configuration, and says what is to come of it.
  void expect_failure(const std::function<void()> &change, bonsai_status expected_status,
                      const char *expected_message) {
    const bonsai_model_spec spec = uploaded.spec;
    const bonsai_session_config saved_config = config;
    const bonsai_layer_spec layer = uploaded.layers[0];
    change();
    bonsai_error error = empty_error();
    bonsai_session *session = nullptr;
    EXPECT_EQ(device.api.session_create(device.handle, &uploaded.spec, &config, &session, &error), expected_status)
        << expected_message;
    EXPECT_STREQ(error.message, expected_message);
    EXPECT_EQ(session, nullptr);
    EXPECT_EQ(device.status().session_bytes, 0u);
    uploaded.spec = spec;
    config = saved_config;
    uploaded.layers[0] = layer;
  }

  LoadedModel loaded{TinyModel{}};
  OpenDevice device{kPlugin};
  UploadedModel uploaded{device, loaded.model};
  bonsai_session_config config = small_config();
  bonsai_model_spec &spec = uploaded.spec;
};

TEST_F(SessionArguments, TheModelIsChecked) {
  const bonsai_status invalid = BONSAI_INVALID_ARGUMENT, unsupported = BONSAI_UNSUPPORTED;
  expect_failure([&] { spec.features = 4; }, unsupported, "model->features has unknown bits 0x4");
  expect_failure([&] { spec.reserved = 1; }, invalid, "model->reserved is 1, expected 0");
  expect_failure([&] { spec.n_layers = 0; }, invalid, "model->n_layers is 0, expected at least 1");
  expect_failure([&] { spec.hidden = 0; }, invalid, "model->hidden is 0, expected at least 1");
  expect_failure([&] { spec.n_kv_heads = 3; }, invalid, "model->n_kv_heads is 3, expected a divisor of n_heads, 4");
  expect_failure([&] { spec.head_dim = 33; }, invalid, "model->head_dim is 33, expected an even number");
  expect_failure([&] { spec.head_dim = 2048; }, unsupported, "model->head_dim is 2048, expected at most 1024");
  expect_failure([&] { spec.rope_dim = 34; }, invalid,
                 "model->rope_dim is 34, expected an even number up to head_dim, 32");
  expect_failure([&] { spec.rope_cos = nullptr; }, invalid, "model->rope_cos is NULL");
  expect_failure([&] { spec.rope_positions = 0; }, invalid, "model->rope_positions is 0, expected at least 1");
  expect_failure([&] { spec.rms_eps = -1; }, invalid, "model->rms_eps is -1, expected a number from 0");
  expect_failure([&] { spec.softmax_scale = std::numeric_limits<float>::infinity(); }, invalid,
                 "model->softmax_scale is inf, expected a finite number");
  expect_failure([&] { spec.output_norm = nullptr; }, invalid,
                 "model->output_norm is NULL and model->head is not, expected both or neither");
  expect_failure([&] { spec.vocab = 0; }, invalid, "model->vocab is 0, expected at least 1");
  expect_failure([&] { spec.vocab = 271; }, invalid, "model->embedding is (272, 128), expected (271, 128)");
  expect_failure([&] { spec.struct_size = 12; }, invalid, "model: struct_size is 12, expected at least 104");
}

TEST_F(SessionArguments, LayersAreChecked) {
  bonsai_layer_spec &layer = uploaded.layers[0];
  const bonsai_status invalid = BONSAI_INVALID_ARGUMENT;
  expect_failure([&] { layer.kind = 3; }, BONSAI_UNSUPPORTED, "layer->kind is 3, expected BONSAI_LAYER_DECODER");
  expect_failure([&] { layer.attn_norm = nullptr; }, invalid, "layer->attn_norm is NULL");
  expect_failure([&] { layer.q = nullptr; }, invalid, "layer->q is NULL");
  expect_failure([&] { layer.q = layer.k; }, invalid, "layer->q is (64, 128), expected (128, 128)");
  expect_failure([&] { layer.down = layer.up; }, invalid, "layer->down is (256, 128), expected (128, 256)");
  bonsai_weight_slice beyond = *layer.v;
  beyond.first_row = 200;
  expect_failure([&] { layer.v = &beyond; }, invalid, "layer->v: rows 200 to 264 reach beyond the weight's 256");
  bonsai_weight_slice empty = *layer.v;
  empty.weight = nullptr;
  expect_failure([&] { layer.v = &empty; }, invalid, "layer->v->weight is NULL");
}

TEST_F(SessionArguments, TheConfigurationIsChecked) {
  const bonsai_status invalid = BONSAI_INVALID_ARGUMENT;
  expect_failure([&] { config.kv_dtype = 3; }, BONSAI_UNSUPPORTED, "config->kv_dtype is 3, expected 0 to 2");
  expect_failure([&] { config.block_size = 20; }, invalid, "config->block_size is 20, expected 16, 32, 64 or 128");
  expect_failure([&] { config.n_blocks = 0; }, invalid, "config->n_blocks is 0, expected at least 1");
  expect_failure([&] { config.max_tokens = 0; }, invalid, "config->max_tokens is 0, expected at least 1");
  expect_failure([&] { config.max_sequences = 0; }, invalid, "config->max_sequences is 0, expected at least 1");
  expect_failure([&] { config.max_k = 273; }, invalid, "config->max_k is 273, expected at most 272");
  expect_failure([&] { config.reserved = 7; }, invalid, "config->reserved is 7, expected 0");
}

TEST(SessionArgumentsOfOtherShapes, AQ8CacheNeedsWholeGroups) {
  const LoadedModel loaded({.heads = 4, .kv_heads = 2, .head_dim = 16, .format = quant::Format::kF32});
  OpenDevice device(kPlugin);
  UploadedModel uploaded(device, loaded.model);
  bonsai_session_config config = small_config();
  config.kv_dtype = BONSAI_KV_Q8_0;
  bonsai_session *session = nullptr;
  BONSAI_EXPECT_FAILS(device.api.session_create(device.handle, &uploaded.spec, &config, &session, &error),
                      BONSAI_UNSUPPORTED,
                      "a Q8_0 KV cache needs a head_dim that is a multiple of 32, this model's is 16");
}

TEST_F(SessionArguments, MemoryThatIsNotToBeHadIsOutOfMemory) {
  config.n_blocks = 1u << 28;
  config.block_size = 128;
  bonsai_session *session = nullptr;
  bonsai_error error = empty_error();
  EXPECT_EQ(device.api.session_create(device.handle, &spec, &config, &session, &error), BONSAI_OUT_OF_MEMORY);
  EXPECT_EQ(std::string(error.message).find("host memory: 17592186044416 bytes for the KV cache"), 0u) << error.message;
}

}  // namespace
}  // namespace bonsai::test
