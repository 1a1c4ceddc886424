// Sessions on disk, through the public API: a text goes on where it was, whatever backend takes it up.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "tests/host/engine/seedling.h"
#include "tests/model/tiny_model.h"

namespace bonsai {
namespace {

class SavedSession : public ::testing::Test {
 protected:
  std::string path(const std::string &name) const {
    return ::testing::TempDir() + "/bonsai-" + name + "-" + std::to_string(getpid()) + ".session";
  }

  static EngineOptions on(const std::string &backend) {
    EngineOptions options = seedling_options();
    options.backend = backend;
    options.backend_strict = true;
    return options;
  }
  static EngineOptions with_kv(KvType kv) {
    EngineOptions options = seedling_options();
    options.kv = kv;
    return options;
  }

  // Saves a session behind some text and says what follows.
  static std::string save(const Engine &engine, const std::string &path) {
    Session session = engine.new_session();
    session.append("Once upon a time, there was a little");
    session.generate(greedy(40));
    session.save(path);
    return session.generate(greedy(30)).text;
  }
};

TEST_F(SavedSession, GoesOnWithoutComputingItsTokensAgain) {
  for (const KvType kv : {KvType::kF16, KvType::kQ8_0, KvType::kF32}) {
    const std::string file = path("same");
    const std::string expected = save(Engine::load(with_kv(kv)), file);
    Session session = Engine::load(with_kv(kv)).new_session();
    session.append("something else that loading replaces");
    session.load(file);
    const Generation generation = session.generate(greedy(30));
    EXPECT_EQ(generation.text, expected);
    EXPECT_EQ(generation.stats.prompt_tokens, 1u);
    std::filesystem::remove(file);
  }
}

// The template backend offers products alone: there the host keeps the cache.
TEST_F(SavedSession, MovesBetweenBackends) {
  const char *const backends[] = {"cpu", "template"};
  for (const char *from : backends) {
    const std::string file = path("moved");
    save(Engine::load(on(from)), file);
    for (const char *to : backends) {
      Session session = Engine::load(on(to)).new_session();
      session.load(file);
      const std::vector<int32_t> tokens(session.tokens().begin(), session.tokens().end());
      const std::vector<float> logits = session.logits();
      Session fresh = Engine::load(on(to)).new_session();
      fresh.append_tokens(tokens);
      const std::vector<float> expected = fresh.logits();
      ASSERT_EQ(logits.size(), expected.size());
      double error = 0, norm = 0;
      for (size_t i = 0; i < logits.size(); ++i) {
        error += (logits[i] - expected[i]) * (logits[i] - expected[i]);
        norm += expected[i] * expected[i];
      }
      // Eight-bit activations on one side, float on the other.
      EXPECT_LE(std::sqrt(error / norm), 2e-2) << from << " to " << to;
      EXPECT_EQ(session.generate(greedy(1)).stats.prompt_tokens, 0u);
    }
    std::filesystem::remove(file);
  }
}

TEST_F(SavedSession, IsComputedAgainForAnotherKvType) {
  const std::string file = path("kv");
  save(Engine::load(with_kv(KvType::kF16)), file);
  EngineOptions options = with_kv(KvType::kQ8_0);
  std::vector<std::string> warnings;
  options.log = [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::kWarning) warnings.emplace_back(line);
  };
  const Engine engine = Engine::load(options);
  Session session = engine.new_session(), fresh = engine.new_session();
  session.load(file);
  fresh.append_tokens(session.tokens());
  EXPECT_EQ(session.logits(), fresh.logits());
  EXPECT_EQ(warnings, std::vector<std::string>{file + ": keys and values of another KV type are computed again"});
  std::filesystem::remove(file);
}

TEST_F(SavedSession, ThatIsNotLoadedForALogThatThrowsHasChangedNothing) {
  const std::string file = path("throws");
  save(Engine::load(with_kv(KvType::kF16)), file);
  EngineOptions options = with_kv(KvType::kQ8_0);
  options.log = [&](LogLevel level, std::string_view) {
    if (level == LogLevel::kWarning) throw std::runtime_error("the disk is full");
  };
  const Engine engine = Engine::load(options);
  Session session = engine.new_session();
  session.append("Once upon a time");
  EXPECT_THROW(session.load(file), std::runtime_error);
  EXPECT_EQ(session.length(), 5u);
  EXPECT_EQ(session.generate(greedy(8)).text, engine.generate("Once upon a time", greedy(8)).text);
  std::filesystem::remove(file);
}

// Neither is a failure, whether the backend does not offer it or fails: not even where the user wants that backend
// only.
TEST_F(SavedSession, IsComputedAgainWhereABackendMovesNothing) {
  struct Case {
    std::string backend, function, import_fault, export_fault;  // no fault: it is done
    std::string status = "internal";
  };
  const Case cases[] = {{"unmoved", "all", "unmoved: kv_import is not offered", "unmoved: kv_export is not offered"},
                        {"failing", "kv_import", "failing: injected into kv_import (internal error)", ""},
                        {"failing", "kv_export", "", "failing: injected into kv_export (internal error)"},
                        {"failing", "kv_export", "", "failing: kv_export succeeded without writing", "idle"}};
  const std::string file = path("unmoved"), expected = save(load_seedling(), file);
  for (const auto &[backend, function, import_fault, export_fault, status] : cases) {
    EngineOptions options = on(BONSAI_BINARY_DIR "/tests/backends/libbonsai_" + backend + ".so");
    if (function != "all")
      options.backend_options = {{"fail.at", "1"}, {"fail.function", function}, {"fail.status", status}};
    std::vector<std::string> warnings, expected_warnings;
    options.log = [&](LogLevel level, std::string_view line) {
      if (level == LogLevel::kWarning) warnings.emplace_back(line);
    };
    const Engine engine = Engine::load(options);
    Session session = engine.new_session();
    session.load(file);
    EXPECT_EQ(session.generate(greedy(30)).text, expected);
    session.save(path("again"));
    if (!import_fault.empty()) expected_warnings.push_back("keys and values are computed again: " + import_fault);
    if (!export_fault.empty())
      expected_warnings.push_back(path("again") + ": saved without keys and values: " + export_fault);
    EXPECT_EQ(warnings, expected_warnings);
    EXPECT_EQ(engine.backend().name, backend);
    std::filesystem::remove(path("again"));
  }
  std::filesystem::remove(file);
}

TEST_F(SavedSession, MayBeEmptyAndMayBeTruncated) {
  const Engine engine = load_seedling();
  const std::string file = path("empty");
  engine.new_session().save(file);
  Session session = engine.new_session();
  session.append("Once upon a time");
  const std::vector<float> expected = session.logits();
  session.load(file);
  EXPECT_EQ(session.length(), 0u);
  session.append("Once upon a time");
  session.save(file);  // nothing is computed yet
  session.load(file);
  EXPECT_EQ(session.logits(), expected);
  session.truncate(3);
  session.save(file);
  session.load(file);
  Session fresh = engine.new_session();
  fresh.append_tokens(session.tokens());
  EXPECT_EQ(session.logits(), fresh.logits());
  std::filesystem::remove(file);
}

TEST_F(SavedSession, IsRefusedWhereItMeansNothing) {
  const std::string file = path("refused");
  save(load_seedling(), file);
  EngineOptions ternary = seedling_options(), narrow = seedling_options();
  ternary.model = BONSAI_BINARY_DIR "/share/bonsai/seedling-tq2_0.gguf";
  narrow.context = 40;
  const Thrown other = thrown_by([&] { Engine::load(ternary).new_session().load(file); });
  EXPECT_EQ(other.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(other.message, file + ": a session of another model: its keys and values would mean nothing here");
  const Thrown full = thrown_by([&] { Engine::load(narrow).new_session().load(file); });
  EXPECT_EQ(full.kind, ErrorKind::kContextFull);
  EXPECT_EQ(full.message, file + ": a session of 50 tokens, room for 40 (context)");
  Session session = load_seedling().new_session();
  session.append("Once upon a time");
  const Thrown model = thrown_by([&] { session.load(seedling_file()); });
  EXPECT_EQ(model.message, seedling_file() + ": not a session file");
  EXPECT_EQ(thrown_by([&] { session.load("/nowhere/x"); }).message,
            "/nowhere/x: cannot open: No such file or directory");
  EXPECT_EQ(thrown_by([&] { session.save("/nowhere/x"); }).message,
            "/nowhere/x: cannot create a file in /nowhere: No such file or directory");
  EXPECT_EQ(session.length(), 5u);  // a failure changes nothing
  std::filesystem::remove(file);
}

// A program's own files, or its user's, are not lost for a session.
TEST_F(SavedSession, SparesWhatIsNoSession) {
  const std::string file = path("spared");
  std::ofstream(file) << "a diary";
  const Thrown refused = thrown_by([&] { save(load_seedling(), file); });
  EXPECT_EQ(refused.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(refused.message, file + ": holds something else than a session, expected another file, or an empty one");
  EXPECT_EQ(std::filesystem::file_size(file), 7u);
  std::filesystem::resize_file(file, 0);
  save(load_seedling(), file);
  save(load_seedling(), file);
  std::filesystem::remove(file);
}

// Keys are stretched by YaRN's factor before they are kept.
TEST_F(SavedSession, IsRefusedByAModelWithAnotherAttentionFactor) {
  const auto model_with = [](float factor) {
    test::TinyModel model{.yarn_factor = 2};
    if (factor != 1)
      model.metadata = [=](gguf::Writer &writer) { writer.set_float32("qwen3.rope.scaling.attn_factor", factor); };
    return std::make_unique<test::TinyModelFile>(model);
  };
  const auto plain = model_with(1), same = model_with(1), stretched = model_with(1.6f);
  const std::string file = path("stretched");
  const auto session_of = [](const test::TinyModelFile &model) {
    return Engine::load({.model = model.path()}).new_session();
  };
  Session session = session_of(*plain);
  session.append("the");
  session.save(file);
  EXPECT_NO_THROW(session_of(*same).load(file));
  EXPECT_EQ(thrown_by([&] { session_of(*stretched).load(file); }).message,
            file + ": a session of another model: its keys and values would mean nothing here");
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace bonsai
