// What crosses the C API besides models: structs of other sizes than the library's, and pointers to nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <span>

#include "tests/host/c_api/handles.h"
#include "tests/model/tiny_model.h"

namespace bonsai::c {
namespace {

// As many bytes as a caller's struct has, on the heap, where sanitizers see who reads or writes beyond them.
template <class Struct>
class Sized {
 public:
  explicit Sized(size_t bytes) : bytes_(bytes, std::byte{0xa5}) {}
  Struct *get() { return reinterpret_cast<Struct *>(bytes_.data()); }
  template <class Field>
  void set(size_t offset, Field value) {
    ASSERT_LE(offset + sizeof value, bytes_.size());
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }
  std::span<const std::byte> from(size_t offset) const { return std::span(bytes_).subspan(offset); }

 private:
  std::vector<std::byte> bytes_;
};

bool all_are(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [value](std::byte byte) { return byte == value; });
}

uint32_t size_in(const void *begin) {
  uint32_t size = 0;
  std::memcpy(&size, begin, sizeof size);
  return size;
}

// A failure that speaks of a name of two-byte characters, put into a struct of that many bytes.
std::string told_in(size_t struct_size) {
  Sized<bonsai_failure> failure(struct_size);
  failure.set(0, static_cast<uint32_t>(struct_size));
  bonsai_engine_options options = seedling();
  options.kv = "\u00e4\u00f6\u00fc";
  bonsai_engine *engine = nullptr;
  EXPECT_EQ(bonsai_engine_load(&options, &engine, failure.get()), uint32_t{BONSAI_BAD_ARGUMENT});
  EXPECT_EQ(size_in(failure.get()), struct_size);
  if (struct_size <= offsetof(bonsai_failure, message)) return "";
  const auto *message = reinterpret_cast<const char *>(failure.from(offsetof(bonsai_failure, message)).data());
  return {message, strnlen(message, struct_size - offsetof(bonsai_failure, message))};
}

const std::string kWhole = "kv: expected f16, q8_0 or f32, found '\u00e4\u00f6\u00fc'";

TEST(CFailure, IsCutToWholeCharactersWhereItsStructIsShort) {
  EXPECT_EQ(told_in(sizeof(bonsai_failure)), kWhole);
  for (size_t room = 1; room <= kWhole.size() + 1; ++room) {
    const std::string told = told_in(offsetof(bonsai_failure, message) + room);
    ASSERT_LT(told.size(), room);
    EXPECT_GE(told.size() + 2, room) << "less than fits";
    EXPECT_TRUE(kWhole.starts_with(told)) << told;
    EXPECT_TRUE(told.size() == kWhole.size() || (kWhole[told.size()] & 0xc0) != 0x80) << told;
  }
}

TEST(CFailure, OfANewerCallerIsFilledAsFarAsThisLibraryKnowsIt) {
  Sized<bonsai_failure> failure(sizeof(bonsai_failure) + 64);
  failure.set(0, static_cast<uint32_t>(sizeof(bonsai_failure) + 64));
  const std::string model = "/" + std::string(3000, 'x');
  const bonsai_engine_options options = options_for(model.c_str());
  bonsai_engine *engine = nullptr;
  EXPECT_EQ(bonsai_engine_load(&options, &engine, failure.get()), uint32_t{BONSAI_BAD_MODEL});
  EXPECT_EQ(std::strlen(failure.get()->message), sizeof failure.get()->message - 1);
  EXPECT_TRUE(all_are(failure.from(sizeof(bonsai_failure)), std::byte{0}));
}

TEST(CFailure, WithoutRoomForAMessageHasTheOutcomeAtMost) {
  bonsai_engine *engine = nullptr;
  EXPECT_EQ(bonsai_engine_load(nullptr, &engine, nullptr), uint32_t{BONSAI_BAD_ARGUMENT});
  for (const uint32_t size : {0u, 1u, 4u, 7u, 8u}) {
    Sized<bonsai_failure> failure(8);
    failure.set(0, size);
    failure.set(4, uint32_t{99});
    EXPECT_EQ(bonsai_engine_load(nullptr, &engine, failure.get()), uint32_t{BONSAI_BAD_ARGUMENT});
    EXPECT_EQ(failure.get()->outcome, size == 8 ? uint32_t{BONSAI_BAD_ARGUMENT} : 99u) << size;
  }
}

// One line for a person, and UTF-8, whatever a path consists of.
TEST(CFailure, IsALineOfTextAlsoWhereAPathIsNone) {
  const bonsai_engine_options options = options_for("/no\nwhere\xff.gguf");
  bonsai_engine *engine = nullptr;
  const Report report = report_of([&](auto failure) { return bonsai_engine_load(&options, &engine, failure); });
  EXPECT_EQ(report.outcome, uint32_t{BONSAI_BAD_MODEL});
  EXPECT_TRUE(report.message.starts_with("/no\\x0awhere\\xff.gguf: ")) << report.message;
}

// What a later version may come to know, an earlier one does not pass over.
TEST(COptions, WithReservedFieldsThatAreSetAreRefused) {
  bonsai_engine_options engine_options = seedling();
  engine_options.reserved = 1;
  bonsai_engine *none = nullptr;
  expect_failure(BONSAI_BAD_ARGUMENT, "reserved: expected 0, found 1",
                 [&](auto failure) { return bonsai_engine_load(&engine_options, &none, failure); });
  const EngineHandle engine = load();
  bonsai_generate_options options = greedily(1);
  options.reserved = 7;
  expect_failure(BONSAI_BAD_ARGUMENT, "reserved: expected 0, found 7", [&](auto failure) {
    return bonsai_engine_generate(engine.get(), "Once", 4, &options, nullptr, nullptr, nullptr, failure);
  });
}

template <class Struct>
using Init = std::function<bonsai_outcome(Struct *options, uint64_t struct_size)>;

// Structs of every size from `struct_size` alone to more than the library knows.
template <class Struct>
void expect_init_keeps_within(const Init<Struct> &init) {
  Struct whole;
  ASSERT_EQ(init(&whole, sizeof whole), uint32_t{BONSAI_SUCCESS});
  EXPECT_EQ(whole.struct_size, sizeof whole);
  for (size_t size = 4; size <= sizeof whole + 64; size += 4) {
    Sized<Struct> sized(size);
    ASSERT_EQ(init(sized.get(), size), uint32_t{BONSAI_SUCCESS});
    EXPECT_EQ(size_in(sized.get()), size);
    const size_t known = std::min(size, sizeof whole);
    EXPECT_EQ(std::memcmp(sized.from(4).data(), &whole.struct_size + 1, known - 4), 0) << size;
    EXPECT_TRUE(all_are(sized.from(known), std::byte{0})) << size;
  }
  Sized<Struct> untouched(sizeof whole);
  EXPECT_EQ(init(nullptr, sizeof whole), uint32_t{BONSAI_BAD_ARGUMENT});
  for (const uint64_t size : {uint64_t{0}, uint64_t{3}, uint64_t{1} << 32, std::numeric_limits<uint64_t>::max()})
    EXPECT_EQ(init(untouched.get(), size), uint32_t{BONSAI_BAD_ARGUMENT}) << size;
  EXPECT_TRUE(all_are(untouched.from(0), std::byte{0xa5}));
}

TEST(COptions, AreInitialisedAsFarAsTheirCallerKnowsThem) {
  expect_init_keeps_within<bonsai_engine_options>(bonsai_engine_options_init);
  expect_init_keeps_within<bonsai_chat_options>(bonsai_chat_options_init);
  expect_init_keeps_within<bonsai_batch_options>(bonsai_batch_options_init);
  expect_init_keeps_within<bonsai_generate_options>(
      [](auto *options, uint64_t size) { return bonsai_generate_options_init(options, size, "creative"); });
}

// Promise: a program that was compiled with the header of another day goes on working.
TEST(COptions, OfAnOlderOrNewerCallerAreReadAsFarAsBothKnowThem) {
  const std::string expected = ", in the middle of the forest,";
  const EngineHandle engine = load();
  // From the one that ends behind `temperature`, which makes it greedy; what it lacks is at its default.
  for (size_t size = offsetof(bonsai_generate_options, top_k); size <= sizeof(bonsai_generate_options) + 64;
       size += 4) {
    Sized<bonsai_generate_options> options(size);
    ASSERT_EQ(bonsai_generate_options_init(options.get(), size, "greedy"), uint32_t{BONSAI_SUCCESS});
    options.set(offsetof(bonsai_generate_options, max_tokens), uint32_t{8});
    const GenerationHandle generation = generate(engine, "Once upon a time", *options.get());
    EXPECT_EQ(text_of(generation), expected) << size;
  }
  // From the one that ends behind `model`.
  const bonsai_engine_options whole = seedling();
  for (size_t size = offsetof(bonsai_engine_options, backend); size <= sizeof whole + 64; size += 8) {
    Sized<bonsai_engine_options> options(size);
    ASSERT_EQ(bonsai_engine_options_init(options.get(), size), uint32_t{BONSAI_SUCCESS});
    options.set(offsetof(bonsai_engine_options, model), whole.model);
    EXPECT_NE(load(*options.get()), nullptr) << size;
  }
  for (const size_t size : {4, 8, 12, 20, 84}) {
    Sized<bonsai_batch_options> options(size);
    ASSERT_EQ(bonsai_batch_options_init(options.get(), size), uint32_t{BONSAI_SUCCESS});
    EXPECT_NE(new_batch(engine, options.get()), nullptr) << size;
  }
  for (const size_t size : {4, 8, 16, 24, 88}) {
    Sized<bonsai_chat_options> options(size);
    ASSERT_EQ(bonsai_chat_options_init(options.get(), size), uint32_t{BONSAI_SUCCESS});
    EXPECT_NE(new_chat(engine, options.get()), nullptr) << size;
  }
}

TEST(COptions, WithoutASizeAreRefused) {
  const EngineHandle engine = load();
  const std::string message = "struct_size: expected what the options' _init function sets, found ";
  for (const uint32_t size : {0u, 3u}) {
    const std::string expected = message + std::to_string(size);
    bonsai_engine_options of_engine = seedling();
    of_engine.struct_size = size;
    bonsai_engine *no_engine = nullptr;
    expect_failure(BONSAI_BAD_ARGUMENT, expected,
                   [&](auto failure) { return bonsai_engine_load(&of_engine, &no_engine, failure); });
    bonsai_generate_options of_generation = greedily(1);
    of_generation.struct_size = size;
    expect_failure(BONSAI_BAD_ARGUMENT, expected, [&](auto failure) {
      return bonsai_engine_generate(engine.get(), "x", 1, &of_generation, nullptr, nullptr, nullptr, failure);
    });
    bonsai_chat_options of_chat = chat_options();
    of_chat.struct_size = size;
    bonsai_chat *no_chat = nullptr;
    expect_failure(BONSAI_BAD_ARGUMENT, expected,
                   [&](auto failure) { return bonsai_chat_new(engine.get(), &of_chat, &no_chat, failure); });
    bonsai_batch_options of_batch = batch_options();
    of_batch.struct_size = size;
    bonsai_batch_engine *no_batch = nullptr;
    expect_failure(BONSAI_BAD_ARGUMENT, expected,
                   [&](auto failure) { return bonsai_batch_new(engine.get(), &of_batch, &no_batch, failure); });
    bonsai_engine_info info = describe(engine);
    info.struct_size = size;
    expect_failure(BONSAI_BAD_ARGUMENT, "info: struct_size is not set",
                   [&](auto failure) { return bonsai_engine_describe(engine.get(), &info, failure); });
    const BatchHandle batch = new_batch(engine);
    bonsai_batch_info of_texts = describe(batch);
    of_texts.struct_size = size;
    expect_failure(BONSAI_BAD_ARGUMENT, "info: struct_size is not set",
                   [&](auto failure) { return bonsai_batch_describe(batch.get(), &of_texts, failure); });
  }
}

template <class Info>
void expect_filled_within(const Info &whole, const std::function<bonsai_outcome(Info *, bonsai_failure *)> &fill) {
  for (size_t size = 4; size <= sizeof whole + 64; size += 4) {
    Sized<Info> info(size);
    info.set(0, static_cast<uint32_t>(size));
    succeed([&](auto failure) { return fill(info.get(), failure); });
    EXPECT_EQ(size_in(info.get()), size);
    const size_t known = std::min(size, sizeof whole);
    EXPECT_EQ(std::memcmp(info.from(4).data(), &whole.struct_size + 1, known - 4), 0) << size;
    EXPECT_TRUE(all_are(info.from(known), std::byte{0})) << size;
  }
}

TEST(CInfo, IsFilledAsFarAsBothKnowIt) {
  const EngineHandle engine = load();
  expect_filled_within<bonsai_engine_info>(
      describe(engine), [&](auto *info, auto *failure) { return bonsai_engine_describe(engine.get(), info, failure); });
  const BatchHandle batch = new_batch(engine);
  expect_filled_within<bonsai_batch_info>(
      describe(batch), [&](auto *info, auto *failure) { return bonsai_batch_describe(batch.get(), info, failure); });
}

// As the engine describes a model that calls itself so.
std::string name_of(const std::string &name) {
  test::TinyModel model;
  model.metadata = [&name](gguf::Writer &writer) { writer.set_string("general.name", name); };
  const test::TinyModelFile file(model);
  return describe(load(options_for(file.path().c_str()))).model;
}

TEST(CInfo, ANameIsALineOfTextCutToWholeCharacters) {
  std::string name = "ab";
  for (int i = 0; i < 100; ++i) name += "\u00e4";
  EXPECT_EQ(name_of(name), name.substr(0, 126));  // of 127 that there is room for
  EXPECT_EQ(name_of("x\xff\ny"), "x\\xff\\x0ay");
}

struct NullCase {
  const char *message;
  std::function<bonsai_outcome(bonsai_failure *failure)> call;
};

void expect_refused(const std::vector<NullCase> &cases) {
  for (const auto &[message, call] : cases) {
    expect_failure(BONSAI_BAD_ARGUMENT, message, call);
    EXPECT_EQ(call(nullptr), uint32_t{BONSAI_BAD_ARGUMENT}) << message;
  }
}

TEST(CNull, IsRefusedByEveryFunctionOfAnEngine) {
  const EngineHandle handle = load();
  const bonsai_engine *engine = handle.get();
  bonsai_engine *made = nullptr;
  bonsai_engine_session *session = nullptr;
  bonsai_chat *chat = nullptr;
  const bonsai_engine_options no_model = options_for(nullptr), options = seedling();
  bonsai_engine_info info = describe(handle);
  int32_t token = 0;
  uint64_t n = 0;
  char letter = 0;
  std::vector<float> vector(4096);
  const char *const no_engine = "engine: expected one, found NULL";
  expect_refused({
      {"options: expected one, found NULL", [&](auto f) { return bonsai_engine_load(nullptr, &made, f); }},
      {"model: expected one, found NULL", [&](auto f) { return bonsai_engine_load(&no_model, &made, f); }},
      {no_engine, [&](auto f) { return bonsai_engine_load(&options, nullptr, f); }},
      {no_engine, [&](auto f) { return bonsai_engine_describe(nullptr, &info, f); }},
      {"info: expected one, found NULL", [&](auto f) { return bonsai_engine_describe(engine, nullptr, f); }},
      {no_engine, [&](auto f) { return bonsai_engine_tokenize(nullptr, "x", 1, 0, &token, 1, &n, f); }},
      {"text: expected one, found NULL",
       [&](auto f) { return bonsai_engine_tokenize(engine, nullptr, BONSAI_TO_NUL, 0, &token, 1, &n, f); }},
      {"text: expected 1, found NULL",
       [&](auto f) { return bonsai_engine_tokenize(engine, nullptr, 1, 0, &token, 1, &n, f); }},
      {"the array to fill: expected 1, found NULL",
       [&](auto f) { return bonsai_engine_tokenize(engine, "x", 1, 0, nullptr, 1, &n, f); }},
      {"n: expected one, found NULL",
       [&](auto f) { return bonsai_engine_tokenize(engine, "x", 1, 0, &token, 1, nullptr, f); }},
      {no_engine, [&](auto f) { return bonsai_engine_detokenize(nullptr, &token, 1, &letter, 1, &n, f); }},
      {"tokens: expected 1, found NULL",
       [&](auto f) { return bonsai_engine_detokenize(engine, nullptr, 1, &letter, 1, &n, f); }},
      {"the array to fill: expected 1, found NULL",
       [&](auto f) { return bonsai_engine_detokenize(engine, &token, 1, nullptr, 1, &n, f); }},
      {"n: expected one, found NULL",
       [&](auto f) { return bonsai_engine_detokenize(engine, &token, 1, &letter, 1, nullptr, f); }},
      {no_engine, [&](auto f) { return bonsai_engine_embed(nullptr, "x", 1, 0, vector.data(), vector.size(), f); }},
      {"text: expected one, found NULL",
       [&](auto f) { return bonsai_engine_embed(engine, nullptr, BONSAI_TO_NUL, 0, vector.data(), vector.size(), f); }},
      {"vector: expected one, found NULL",
       [&](auto f) { return bonsai_engine_embed(engine, "x", 1, 0, nullptr, vector.size(), f); }},
      {no_engine,
       [&](auto f) { return bonsai_engine_generate(nullptr, "x", 1, nullptr, nullptr, nullptr, nullptr, f); }},
      {"prompt: expected one, found NULL",
       [&](auto f) {
         return bonsai_engine_generate(engine, nullptr, BONSAI_TO_NUL, nullptr, nullptr, nullptr, nullptr, f);
       }},
      {"prompt: expected 3, found NULL",
       [&](auto f) { return bonsai_engine_generate(engine, nullptr, 3, nullptr, nullptr, nullptr, nullptr, f); }},
      {no_engine, [&](auto f) { return bonsai_session_new(nullptr, &session, f); }},
      {"session: expected one, found NULL", [&](auto f) { return bonsai_session_new(engine, nullptr, f); }},
      {no_engine, [&](auto f) { return bonsai_chat_new(nullptr, nullptr, &chat, f); }},
      {"chat: expected one, found NULL", [&](auto f) { return bonsai_chat_new(engine, nullptr, nullptr, f); }},
  });
  EXPECT_EQ(made, nullptr);
}

TEST(CNull, IsRefusedByEveryFunctionOfASession) {
  const SessionHandle handle = new_session(load(), "x");
  bonsai_engine_session *session = handle.get();
  int32_t token = 0;
  uint64_t n = 0;
  std::vector<float> logits(4096);
  const char *const no_session = "session: expected one, found NULL";
  expect_refused({
      {no_session, [&](auto f) { return bonsai_session_append(nullptr, "x", 1, f); }},
      {"text: expected one, found NULL",
       [&](auto f) { return bonsai_session_append(session, nullptr, BONSAI_TO_NUL, f); }},
      {no_session, [&](auto f) { return bonsai_session_append_tokens(nullptr, &token, 1, f); }},
      {"tokens: expected 1, found NULL", [&](auto f) { return bonsai_session_append_tokens(session, nullptr, 1, f); }},
      {no_session, [&](auto f) { return bonsai_session_generate(nullptr, nullptr, nullptr, nullptr, nullptr, f); }},
      {no_session, [&](auto f) { return bonsai_session_logits(nullptr, logits.data(), logits.size(), f); }},
      {"logits: expected one, found NULL",
       [&](auto f) { return bonsai_session_logits(session, nullptr, logits.size(), f); }},
      {no_session, [&](auto f) { return bonsai_session_tokens(nullptr, &token, 1, &n, f); }},
      {"the array to fill: expected 1, found NULL",
       [&](auto f) { return bonsai_session_tokens(session, nullptr, 1, &n, f); }},
      {"n: expected one, found NULL", [&](auto f) { return bonsai_session_tokens(session, &token, 1, nullptr, f); }},
      {no_session, [&](auto f) { return bonsai_session_truncate(nullptr, 0, f); }},
      {no_session, [&](auto f) { return bonsai_session_save(nullptr, "/nowhere/x", f); }},
      {"path: expected one, found NULL", [&](auto f) { return bonsai_session_save(session, nullptr, f); }},
      {no_session, [&](auto f) { return bonsai_session_load(nullptr, "/nowhere/x", f); }},
      {"path: expected one, found NULL", [&](auto f) { return bonsai_session_load(session, nullptr, f); }},
  });
  EXPECT_EQ(bonsai_session_length(session), 2u);
  EXPECT_EQ(bonsai_session_length(nullptr), 0u);
  EXPECT_EQ(bonsai_session_room(nullptr), 0u);
}

TEST(CNull, IsRefusedByEveryFunctionOfAChat) {
  const ChatHandle handle = new_chat(load());
  bonsai_chat *chat = handle.get();
  const char *const no_chat = "chat: expected one, found NULL";
  expect_refused({
      {no_chat, [&](auto f) { return bonsai_chat_send(nullptr, "x", 1, nullptr, nullptr, nullptr, nullptr, f); }},
      {"text: expected one, found NULL",
       [&](auto f) { return bonsai_chat_send(chat, nullptr, BONSAI_TO_NUL, nullptr, nullptr, nullptr, nullptr, f); }},
      {no_chat, [&](auto f) { return bonsai_chat_regenerate(nullptr, nullptr, nullptr, nullptr, nullptr, f); }},
      {no_chat, [&](auto f) { return bonsai_chat_add(nullptr, "user", "x", 1, f); }},
      {"role: expected one, found NULL", [&](auto f) { return bonsai_chat_add(chat, nullptr, "x", 1, f); }},
      {"text: expected 1, found NULL", [&](auto f) { return bonsai_chat_add(chat, "user", nullptr, 1, f); }},
      {no_chat, [&](auto f) { return bonsai_chat_respond(nullptr, nullptr, nullptr, nullptr, nullptr, f); }},
      {no_chat, [&](auto f) { return bonsai_chat_reset(nullptr, f); }},
      {no_chat, [&](auto f) { return bonsai_chat_save_session(nullptr, "/nowhere/x", f); }},
      {"path: expected one, found NULL", [&](auto f) { return bonsai_chat_save_session(chat, nullptr, f); }},
      {no_chat, [&](auto f) { return bonsai_chat_load_session(nullptr, "/nowhere/x", f); }},
      {"path: expected one, found NULL", [&](auto f) { return bonsai_chat_load_session(chat, nullptr, f); }},
  });
}

TEST(CNull, IsRefusedByEveryFunctionOfABatch) {
  const EngineHandle engine = load();
  const BatchHandle handle = new_batch(engine);
  bonsai_batch_engine *batch = handle.get(), *made = nullptr;
  bonsai_batch_info info = describe(handle);
  const char *const prompts[] = {"x", nullptr};
  const bonsai_generation *generations[2] = {};
  const auto done = [](void *, const bonsai_generation *, const bonsai_failure *) { FAIL() << "nothing was started"; };
  const char *const no_batch = "batch: expected one, found NULL";
  expect_refused({
      {"engine: expected one, found NULL", [&](auto f) { return bonsai_batch_new(nullptr, nullptr, &made, f); }},
      {no_batch, [&](auto f) { return bonsai_batch_new(engine.get(), nullptr, nullptr, f); }},
      {no_batch, [&](auto f) { return bonsai_batch_describe(nullptr, &info, f); }},
      {"info: expected one, found NULL", [&](auto f) { return bonsai_batch_describe(batch, nullptr, f); }},
      {no_batch, [&](auto f) { return bonsai_batch_start(nullptr, "x", 1, nullptr, nullptr, done, nullptr, f); }},
      {"prompt: expected 1, found NULL",
       [&](auto f) { return bonsai_batch_start(batch, nullptr, 1, nullptr, nullptr, done, nullptr, f); }},
      {"done: expected one, found NULL",
       [&](auto f) { return bonsai_batch_start(batch, "x", 1, nullptr, nullptr, nullptr, nullptr, f); }},
      {no_batch,
       [&](auto f) { return bonsai_batch_start_tokens(nullptr, nullptr, 0, nullptr, nullptr, done, nullptr, f); }},
      {"tokens: expected 1, found NULL",
       [&](auto f) { return bonsai_batch_start_tokens(batch, nullptr, 1, nullptr, nullptr, done, nullptr, f); }},
      {no_batch, [&](auto f) { return bonsai_batch_generate(nullptr, prompts, 1, nullptr, generations, f); }},
      {"prompts: expected 1, found NULL",
       [&](auto f) { return bonsai_batch_generate(batch, nullptr, 1, nullptr, generations, f); }},
      {"prompts: expected one, found NULL",
       [&](auto f) { return bonsai_batch_generate(batch, prompts, 2, nullptr, generations, f); }},
      {"generations: expected 1, found NULL",
       [&](auto f) { return bonsai_batch_generate(batch, prompts, 1, nullptr, nullptr, f); }},
  });
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(describe(handle).steps, 0u);
}

TEST(CNull, WithinOptionsIsRefused) {
  const EngineHandle engine = load();
  const char *const nothing[] = {nullptr};
  const int32_t token = 7;
  const auto refused = [&](const char *message, auto change) {
    bonsai_generate_options options = greedily(1);
    change(options);
    expect_failure(BONSAI_BAD_ARGUMENT, message, [&](auto failure) {
      return bonsai_engine_generate(engine.get(), "x", 1, &options, nullptr, nullptr, nullptr, failure);
    });
  };
  refused("stops: expected 2, found NULL", [](auto &options) { options.n_stops = 2; });
  refused("stops: expected one, found NULL", [&](auto &options) {
    options.n_stops = 1;
    options.stops = nothing;
  });
  refused("bias_tokens: expected 1, found NULL", [](auto &options) { options.n_logit_bias = 1; });
  refused("bias_adds: expected 1, found NULL", [&](auto &options) {
    options.n_logit_bias = 1;
    options.bias_tokens = &token;
  });
}

TEST(CNull, MayBeFreedAndRequested) {
  bonsai_engine_free(nullptr);
  bonsai_session_free(nullptr);
  bonsai_chat_free(nullptr);
  bonsai_batch_free(nullptr);
  bonsai_generation_free(nullptr);
  bonsai_stop_free(nullptr);
  bonsai_stop_request(nullptr);
}

// No bytes need no address.
TEST(CNull, IsAnEmptyTextWhereNoBytesAreAskedFor) {
  const EngineHandle engine = load();
  uint64_t n = 99;
  succeed([&](auto failure) { return bonsai_engine_tokenize(engine.get(), nullptr, 0, 0, nullptr, 0, &n, failure); });
  EXPECT_EQ(n, 0u);
  const SessionHandle session = new_session(engine);
  succeed([&](auto failure) { return bonsai_session_append(session.get(), nullptr, 0, failure); });
  EXPECT_EQ(bonsai_session_length(session.get()), 1u);  // BOS, as for any empty text at the start
}

}  // namespace
}  // namespace bonsai::c
