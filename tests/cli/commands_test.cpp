// The commands beside `run`, on good and on bad input.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/gguf/split_file.h"
#include "tests/model/tiny_model.h"

namespace bonsai::cli {
namespace {

using nlohmann::json;

json golden() { return json::parse(std::ifstream(BONSAI_TEST_DATA "/seedling-golden.json")); }

json parse_success(const Outcome &outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return json::parse(outcome.out, nullptr, false);
}

std::ptrdiff_t n_lines(const std::string &text) { return std::count(text.begin(), text.end(), '\n'); }

// The seedling with a NaN for the scale of its last block.
std::string seedling_with_nan() {
  std::string broken = read_file(seedling());
  broken.replace(broken.size() - 18, 2, "\xff\x7f");
  return write_file("nan.gguf", broken);
}

test::TinyModel model_with(const char *key, const char *value) {
  test::TinyModel model;
  model.metadata = [=](gguf::Writer &writer) { writer.set_string(key, value); };
  return model;
}

// What is said of a tokenizer that nobody knows.
std::string unknown_tokenizer(const std::string &path) {
  return path +
         ": tokenizer.ggml.pre is 'zwen2'; known pre-tokenizers are 'qwen2', 'deepseek-r1-qwen', 'f2llmv2', 'kormo'";
}

TEST(Tokenize, IdsAreOneLine) {
  const Outcome outcome = run_program({"tokenize", "-m", seedling(), "--ids", "-p", "Once upon a time"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "[2258, 640, 258, 518]\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(run_program({"tokenize", "-m", seedling(), "--ids", "-p", ""}).out, "[]\n");
}

TEST(Tokenize, ReadsStdinAndFilesByteForByte) {
  const std::string text = "The tale\nends.\n";
  const std::string expected = run_program({"tokenize", "-m", seedling(), "--ids", "-p", text}).out;
  EXPECT_EQ(run_program({"tokenize", "-m", seedling(), "--ids", "-p", "-"}, text).out, expected);
  EXPECT_EQ(run_program({"tokenize", "-m", seedling(), "--ids", "-f", write_file("tale.txt", text)}).out, expected);
}

TEST(Tokenize, SpecialTokensAreParsedUnlessToldNot) {
  EXPECT_EQ(run_program({"tokenize", "-m", seedling(), "--ids", "-p", "<|endoftext|>"}).out, "[4093]\n");
  const Outcome plain = run_program({"tokenize", "-m", seedling(), "--ids", "--no-special", "-p", "<|endoftext|>"});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(plain.out.find("4093"), std::string::npos) << plain.out;
}

TEST(Tokenize, JsonAndTableShowThePieces) {
  const json result = parse_success(run_program({"tokenize", "-m", seedling(), "--json", "-p", "Once upon"}));
  EXPECT_EQ(result, json({{"tokens", {2258, 640}}, {"pieces", {"Once", " upon"}}}));
  EXPECT_EQ(run_program({"tokenize", "-m", seedling(), "-p", "Once upon"}).out, "   2258  'Once'\n    640  ' upon'\n");
}

TEST(Tokenize, InvalidUtf8IsAnErrorWithItsOffset) {
  const Outcome outcome = run_program({"tokenize", "-m", seedling(), "-p", "-"}, "ab\xC3(");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai tokenize: invalid UTF-8 at byte offset 2\n");
}

TEST(Logits, AgreeWithThoseComputedOutsideThisProject) {
  const json prompt = golden()["prompts"][0];
  const std::string list = prompt["tokens"].dump();  // "[1,2,3]"
  const std::string ids = list.substr(1, list.size() - 2);
  const json result = parse_success(run_program({"logits", "-m", seedling(), "--tokens", ids, "--json"}));
  EXPECT_EQ(result["tokens"], prompt["tokens"]);
  ASSERT_EQ(result["logits"].size(), 4096u);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < 4096; ++i) {
    const double expected = prompt["logits"][i];
    difference += std::pow(result["logits"][i].get<double>() - expected, 2);
    norm += expected * expected;
  }
  EXPECT_LT(std::sqrt(difference / norm), 2e-2);
}

TEST(Logits, TheTableBeginsWithTheLikeliest) {
  const Outcome outcome = run_program({"logits", "-m", seedling(), "--tokens", "4093, 2258"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(n_lines(outcome.out), 11);
  EXPECT_NE(outcome.out.find("    640 "), std::string::npos);
  EXPECT_NE(outcome.out.find("' upon'\n"), std::string::npos) << outcome.out;
}

TEST(Logits, TakeTokensFromStdin) {
  const Outcome typed = run_program({"logits", "-m", seedling(), "--tokens", "4093,2258"});
  ASSERT_EQ(typed.exit_code, 0) << typed.err;
  // As `tokenize --ids` prints them, as a person does, and in lines.
  for (const std::string ids : {"[4093, 2258]\n", "4093,2258", " 4093,\r\n2258\r\n"}) {
    const Outcome outcome = run_program({"logits", "-m", seedling(), "--tokens", "-"}, ids);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, typed.out) << ids;
  }
  EXPECT_EQ(run_program({"logits", "-m", seedling(), "--tokens", "[4093, 2258]"}).out, typed.out);
  for (const std::string ids : {"", "[]\n", "[1, 2"}) {
    const Outcome outcome = run_program({"logits", "-m", seedling(), "--tokens", "-"}, ids);
    EXPECT_EQ(outcome.exit_code, 2) << ids;
    EXPECT_NE(outcome.err.find("--tokens: expected ids as in 1,2,3, found '"), std::string::npos) << outcome.err;
  }
}

TEST(Logits, TokensOutsideTheVocabularyAreNamed) {
  const auto message = [](const std::string &tokens) {
    const Outcome outcome = run_program({"logits", "-m", seedling(), "--tokens", tokens});
    EXPECT_EQ(outcome.exit_code, 1);
    return outcome.err;
  };
  EXPECT_EQ(message("1,4096"), "bonsai logits: token id 4096 is outside the vocabulary of 4096\n");
  EXPECT_EQ(message("-7"), "bonsai logits: token id -7 is outside the vocabulary of 4096\n");
}

TEST(Logits, ThatAreNoNumbersAreAnErrorAndNoTable) {
  const std::string path = seedling_with_nan();
  for (std::vector<std::string> arguments : {std::vector<std::string>{"logits", "--tokens", "1"},
                                             {"logits", "--tokens", "1", "--json"},
                                             {"perplexity", "-p", "Once upon a time"},
                                             {"perplexity", "-p", "Once upon a time", "--json"}}) {
    const std::string command = arguments[0];
    arguments.insert(arguments.end(), {"-m", path});
    const Outcome outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "bonsai " + command + ": the model produced NaN logits\n");
  }
}

TEST(Logits, MoreContextIsOfferedWhereTheModelHasMore) {
  EXPECT_EQ(run_program({"logits", "-m", seedling(), "--tokens", "1,2,3", "-c", "2"}).err,
            "bonsai logits: context full: 3 tokens to add, room for 2 (context 2, used 0): -c gives more, up to the "
            "model's 1024\n");
}

TEST(Perplexity, CountsEveryPredictionOfEveryWindow) {
  const std::string text = golden()["perplexity"]["text"].get<std::string>();
  const Outcome outcome = run_program({"perplexity", "-m", seedling(), "-f", write_file("tales.txt", text), "--window",
                                       "64", "--tokens", "300", "--json"});
  const json result = parse_success(outcome);
  EXPECT_EQ(result["window"], 64);
  EXPECT_EQ(result["predicted"], 4 * 63 + 43);
  EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(result["nll"].get<double>()), 1e-9);
}

TEST(Perplexity, IsTheOneComputedOutsideThisProject) {
  const json expected = golden()["perplexity"];
  const Outcome outcome =
      run_program({"perplexity", "-m", seedling(), "-f", "-", "--window", "256", "--tokens", "2049", "--json"},
                  expected["text"].get<std::string>());
  const double value = expected["value"];
  EXPECT_NEAR(parse_success(outcome)["perplexity"].get<double>(), value, 0.005 * value);
}

TEST(Perplexity, ALastWindowOfOneTokenPredictsNothing) {
  const std::string text = golden()["perplexity"]["text"].get<std::string>();
  const Outcome outcome =
      run_program({"perplexity", "-m", seedling(), "-p", "-", "--window", "8", "--tokens", "17", "--json"}, text);
  EXPECT_EQ(parse_success(outcome)["predicted"], 14);
}

TEST(Perplexity, IsHeldAgainstTheReference) {
  const std::string text = golden()["perplexity"]["text"].get<std::string>();
  const std::vector<std::string> command = {"perplexity", "-m", seedling(), "-f",  "-",
                                            "--window",   "64", "--tokens", "130", "--reference"};
  std::vector<std::string> as_json = command;
  as_json.push_back("--json");
  const json result = parse_success(run_program(as_json, text));
  const json reference = result["reference"];
  EXPECT_EQ(result["predicted"], 2 * 63 + 1);
  EXPECT_NEAR(reference["perplexity"].get<double>(), result["perplexity"].get<double>(), 0.5);
  EXPECT_NE(reference["perplexity"], result["perplexity"]);
  EXPECT_GE(reference["same_choice"], 120);
  EXPECT_LE(reference["same_choice"], result["predicted"]);
  EXPECT_GT(reference["mean_divergence"], 0);
  EXPECT_LT(reference["mean_divergence"], 1e-3);
  EXPECT_LT(reference["largest_lead_lost"], 0.5);
  EXPECT_LT(reference["logit_error"], 2e-2);
  const Outcome outcome = run_program(command, text);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\nreference  "), std::string::npos) << outcome.out;
}

TEST(Perplexity, HasWindowsThatTheModelHolds) {
  const test::TinyModelFile tiny({.context = 20});
  const std::string text(60, 'x');
  EXPECT_EQ(parse_success(run_program({"perplexity", "-m", tiny.path(), "-p", text, "--json"}))["window"], 20);
  const Outcome outcome = run_program({"perplexity", "-m", tiny.path(), "-p", text, "--window", "21"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "bonsai perplexity: --window: expected at most 20, the context of " + tiny.path() +
                             ", found 21 (see 'bonsai perplexity --help')\n");
}

TEST(Perplexity, HasWindowsThatTheContextHolds) {
  const std::string text(60, 'x');
  EXPECT_EQ(parse_success(run_program({"perplexity", "-m", seedling(), "-p", text, "-c", "8", "--json"}))["window"], 8);
  const Outcome outcome = run_program({"perplexity", "-m", seedling(), "-p", text, "-c", "8", "--window", "9"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "bonsai perplexity: --window: expected at most 8, the context of " + seedling() +
                             ", found 9 (see 'bonsai perplexity --help')\n");
  const Outcome none = run_program({"perplexity", "-m", seedling(), "-p", text, "-c", "1"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_EQ(none.err,
            "bonsai perplexity: --context: expected at least 2, a window's fewest tokens, found 1 (see 'bonsai "
            "perplexity --help')\n");
  const test::TinyModelFile tiny({.context = 20});
  const Outcome whole = run_program({"perplexity", "-m", tiny.path(), "-p", text, "-c", "0", "--window", "21"});
  EXPECT_EQ(whole.exit_code, 2);
  EXPECT_NE(whole.err.find("--window: expected at most 20, "), std::string::npos) << whole.err;
}

TEST(Perplexity, IsHeldAgainstAnotherModel) {
  const std::string ternary = BONSAI_BINARY_DIR "/share/bonsai/seedling-tq2_0.gguf";
  const std::string text = golden()["perplexity"]["text"].get<std::string>();
  const auto of = [&](const std::string &model, const std::string &other) {
    return parse_success(run_program(
        {"perplexity", "-m", model, "-f", "-", "--window", "80", "--tokens", "200", "--against", other, "--json"},
        text));
  };
  const json same = of(seedling(), seedling());
  EXPECT_EQ(same["against"]["perplexity"], same["perplexity"]);
  EXPECT_EQ(same["against"]["same_choice"], same["predicted"]);
  EXPECT_EQ(same["against"]["logit_error"], 0);
  EXPECT_NEAR(same["against"]["mean_divergence"].get<double>(), 0, 1e-12);
  const json other = of(ternary, seedling());
  EXPECT_EQ(other["against"]["perplexity"], same["perplexity"]);
  EXPECT_LT(other["against"]["same_choice"], other["predicted"]);
  EXPECT_GT(other["against"]["mean_divergence"], 0.01);

  const test::TinyModelFile tiny({}), larger({.vocab = 300});
  const Outcome another = run_program({"perplexity", "-m", tiny.path(), "-p", "the king", "--against", larger.path()});
  EXPECT_EQ(another.exit_code, 1);
  EXPECT_EQ(another.err, "bonsai perplexity: " + larger.path() + ": expected the vocabulary of " + tiny.path() +
                             ", found one of 300 tokens instead of 272\n");

  const Outcome both = run_program({"perplexity", "-p", "a b c", "--reference", "--against", ternary});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_NE(both.err.find("expected --reference or --against, found both"), std::string::npos) << both.err;
  const Outcome missing = run_program({"perplexity", "-m", seedling(), "-p", "a b c", "--against", "/nowhere"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_NE(missing.err.find("/nowhere"), std::string::npos) << missing.err;
}

TEST(Perplexity, OfAnotherProgramsLogits) {
  const json info = parse_success(run_program({"info", "-m", seedling(), "--json"}));
  const auto vocabulary = info["model"]["vocabulary"].get<size_t>();
  const std::string logits = write_file("logits", std::string(3 * vocabulary * sizeof(float), '\0'));
  const auto command = [&](const std::string &tokens) -> std::vector<std::string> {
    return {"perplexity", "-m", seedling(), "-p", "Once upon a time", "--tokens", tokens, "--logits", logits, "--json"};
  };
  const json result = parse_success(run_program(command("3")));
  EXPECT_NEAR(result["perplexity"].get<double>(), static_cast<double>(vocabulary), 1e-6);
  const Outcome refused = run_program(command("2"));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.err, fmt::format("bonsai perplexity: {}: expected {} bytes, {} numbers of 4 bytes for "
                                     "each of 2 tokens; found {}\n",
                                     logits, 8 * vocabulary, vocabulary, 12 * vocabulary));
  std::string broken(3 * vocabulary * sizeof(float), '\0');
  broken.replace((vocabulary + 7) * sizeof(float), 4, "\xff\xff\xff\x7f");
  write_file("logits", broken);
  EXPECT_EQ(run_program(command("3")).err,
            "bonsai perplexity: " + logits + ": expected numbers, found a NaN or an infinity behind token 2\n");
  const Outcome missing = run_program({"perplexity", "-m", seedling(), "-p", "a b c", "--logits", "/nowhere"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.err, "bonsai perplexity: /nowhere: cannot read: No such file or directory\n");
}

TEST(Perplexity, NeedsTwoTokens) {
  const Outcome outcome = run_program({"perplexity", "-m", seedling(), "-p", "x"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai perplexity: the text has fewer than two tokens: there is nothing to predict\n");
}

TEST(Info, ShowsShapesTypesAndTokenizer) {
  const json result = parse_success(run_program({"info", seedling(), "--json"}));
  EXPECT_EQ(result["architecture"], "qwen3");
  EXPECT_EQ(result["model"]["layers"], 6);
  EXPECT_EQ(result["model"]["hidden"], 256);
  EXPECT_EQ(result["model"]["context"], 1024);
  EXPECT_EQ(result["model"]["tied_head"], true);
  EXPECT_EQ(result["tokenizer"]["tokens"], 4096);
  EXPECT_EQ(result["types"]["Q1_0_G128"]["tensors"], 43);
  EXPECT_EQ(result["refused"], "");
  const Outcome text = run_program({"info", "-m", seedling()});
  EXPECT_EQ(text.exit_code, 0);
  EXPECT_NE(text.out.find("Q1_0_G128   43 tensors"), std::string::npos) << text.out;
}

// As llama.cpp splits large models: the first part is named, the others are found.
TEST(Run, ReadsAModelInParts) {
  const auto whole = gguf::File::open(seedling());
  ASSERT_TRUE(whole) << whole.error().message;
  const auto parts = test::split_file(*whole, write_file("parts", ""), 3);
  const std::vector<std::string> options = {"-p", "Once upon a time", "-n", "16", "--temp", "0"};
  const auto text_of = [&](const std::string &path) {
    std::vector<std::string> command = {"run", "-m", path};
    command.insert(command.end(), options.begin(), options.end());
    const Outcome outcome = run_program(command);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  };
  EXPECT_EQ(text_of(parts[0]), text_of(seedling()));
  EXPECT_EQ(parse_success(run_program({"info", parts[0], "--json"}))["parts"], 3);
  const std::string info = run_program({"info", parts[0]}).out;
  EXPECT_EQ(info.rfind("file          " + parts[0] + ", 3 parts, ", 0), 0u) << info;
  const Outcome second = run_program({"run", "-m", parts[1], "-p", "x"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_EQ(second.err, "bonsai run: " + parts[1] +
                            ": part 2 of 3 of a model (split.no), expected the first, beside which the others are\n");
}

TEST(Info, TellsThatNoTextCanBeMadeWithoutTheTokenizer) {
  const test::TinyModelFile model(model_with("tokenizer.ggml.pre", "zwen2"));
  const json result = parse_success(run_program({"info", model.path(), "--json"}));
  EXPECT_EQ(result["refused"], unknown_tokenizer(model.path()));
  EXPECT_EQ(result["tokenizer"]["pre"], "zwen2");
  EXPECT_EQ(result["model"]["layers"], 2) << "what is good is shown all the same";
  const std::string text = run_program({"info", model.path()}).out;
  EXPECT_NE(text.find("cannot run    " + unknown_tokenizer(model.path())), std::string::npos) << text;
}

TEST(Info, ShowsAHostileNameHarmlessly) {
  const test::TinyModelFile model(model_with("tokenizer.ggml.pre", "zwen2"));
  const std::string path = make_folder("hostile") + "/a\x1B[31m\nb.gguf";
  std::filesystem::create_symlink(model.path(), path);
  const std::string text = run_program({"info", path}).out;
  EXPECT_EQ(text.find('\x1B'), std::string::npos) << text;
  EXPECT_NE(text.find("a\\x1b[31m\\x0ab.gguf: "), std::string::npos) << text;
}

TEST(Info, ShowsHowTheFileSaysThatTokensAreChosen) {
  const test::TinyModelFile model({.metadata = [](gguf::Writer &writer) {
    writer.set_float32("general.sampling.temp", 0.6f);
    writer.set_int32("general.sampling.top_k", 20);
  }});
  const json sampling = parse_success(run_program({"info", model.path(), "--json"}))["sampling"];
  EXPECT_EQ(sampling, json({{"temperature", 0.6},
                            {"top_k", 20},
                            {"top_p", 0.9},
                            {"min_p", 0.0},
                            {"repetition_penalty", 1.0},
                            {"penalty_window", 64}}));
  const std::string text = run_program({"info", model.path()}).out;
  EXPECT_NE(
      text.find("\nsampling      --temp 0.6 --top-k 20 --top-p 0.9 --min-p 0 --repeat-penalty 1 --repeat-last-n 64\n"),
      std::string::npos)
      << text;
  EXPECT_FALSE(parse_success(run_program({"info", seedling(), "--json"})).contains("sampling"));
}

TEST(Info, RefusesWhatIsNoModelFile) {
  const std::string path = write_file("empty.gguf", "");
  const Outcome outcome = run_program({"info", path});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err.rfind("bonsai info: " + path + ": ", 0), 0u) << outcome.err;
  EXPECT_EQ(n_lines(outcome.err), 1);
}

TEST(Validate, AcceptsTheSeedling) {
  const Outcome outcome = run_program({"validate", seedling()});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, seedling() + ": valid, 68 tensors, 5771264 weights\n");
  EXPECT_EQ(parse_success(run_program({"validate", seedling(), "--json"}))["valid"], true);
}

TEST(Validate, TellsOfAFileInOneLineWhateverItIsCalled) {
  const std::string path = write_file("se\ned\x1b[31m.gguf", read_file(seedling()));
  const std::string before = path.substr(0, path.find("se\n"));
  EXPECT_EQ(run_program({"validate", path}).out,
            before + "se\\x0aed\\x1b[31m.gguf: valid, 68 tensors, 5771264 weights\n");
  EXPECT_EQ(run_program({"info", path}).out.find('\x1b'), std::string::npos);
}

TEST(Validate, RefusesACutFileInOneLine) {
  const std::string whole = read_file(seedling());
  for (const size_t size : {size_t{0}, size_t{3}, size_t{20}, size_t{1000}, whole.size() / 2, whole.size() - 1}) {
    const std::string path = write_file("cut.gguf", whole.substr(0, size));
    const Outcome outcome = run_program({"validate", path});
    EXPECT_EQ(outcome.exit_code, 1) << size;
    EXPECT_EQ(outcome.err.rfind("bonsai validate: " + path + ": ", 0), 0u) << outcome.err;
    EXPECT_EQ(n_lines(outcome.err), 1) << outcome.err;
    const Outcome as_json = run_program({"validate", path, "--json"});
    EXPECT_EQ(as_json.exit_code, 1);
    EXPECT_EQ(json::parse(as_json.out)["valid"], false);
  }
}

// Whatever byte of the header is broken: a verdict, never a crash, and `run` agrees with `validate`.
TEST(Validate, AnyBrokenHeaderByteGetsAVerdict) {
  const std::string whole = read_file(seedling());
  int n_refused = 0;
  for (size_t at = 0; at < 24; ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x41);
    const std::string path = write_file("broken.gguf", broken);
    const Outcome outcome = run_program({"validate", path});
    ASSERT_LE(outcome.exit_code, 1) << "byte " << at << ": " << outcome.err;
    if (outcome.exit_code == 0) continue;
    ++n_refused;
    EXPECT_EQ(n_lines(outcome.err), 1) << outcome.err;
    const Outcome run = run_program({"run", "-m", path, "-p", "x", "-n", "1"});
    EXPECT_EQ(run.exit_code, 1) << "byte " << at;
    EXPECT_EQ(run.err, "bonsai run" + outcome.err.substr(std::string("bonsai validate").size()));
  }
  EXPECT_EQ(n_refused, 24);  // magic, version and the two counts: every byte matters
}

TEST(Validate, RefusesAModelWhoseTokenizerIsUnknown) {
  const test::TinyModelFile model(model_with("tokenizer.ggml.pre", "zwen2"));
  const Outcome outcome = run_program({"validate", model.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "bonsai validate: " + unknown_tokenizer(model.path()) + "\n");
  const Outcome as_json = run_program({"validate", model.path(), "--json"});
  EXPECT_EQ(as_json.exit_code, 1);
  EXPECT_EQ(json::parse(as_json.out)["valid"], false);
  EXPECT_EQ(json::parse(as_json.out)["reason"], unknown_tokenizer(model.path()));
  EXPECT_EQ(run_program({"tokenize", "-m", model.path(), "-p", "x"}).err,
            "bonsai tokenize: " + unknown_tokenizer(model.path()) + "\n");
}

TEST(Validate, AChatTemplateThatCannotBeUsedIsAFinding) {
  const test::TinyModelFile model(model_with("tokenizer.chat_template", "{% if x %}"));
  const std::string finding =
      model.path() + ": tokenizer.chat_template: line 1: 'if' is never closed: expected '{% endif %}'";
  const Outcome outcome = run_program({"validate", model.path()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.rfind(finding + "\n" + model.path() + ": valid, ", 0), 0u) << outcome.out;
  EXPECT_EQ(parse_success(run_program({"info", model.path(), "--json"}))["warnings"], json({finding}));
}

// What is not taken as the file has it: told by whoever looks at the file or runs it.
TEST(Validate, ATokenThatIsNoneIsAFinding) {
  test::TinyModel with_strange_eos;
  with_strange_eos.metadata = [](gguf::Writer &writer) { writer.set_uint32("tokenizer.ggml.eos_token_id", 70'000); };
  const test::TinyModelFile model(with_strange_eos);
  const Outcome outcome = run_program({"validate", model.path()});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string finding = outcome.out.substr(0, outcome.out.find('\n'));
  EXPECT_EQ(finding.rfind(model.path() + ": tokenizer.ggml.eos_token_id is no id below ", 0), 0u) << outcome.out;
  EXPECT_EQ(parse_success(run_program({"info", model.path(), "--json"}))["warnings"], json({finding}));
  const Outcome run = run_program({"run", "-m", model.path(), "-p", "a", "-n", "1"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_NE(run.err.find("warning: " + finding + "\n"), std::string::npos) << run.err;
}

TEST(Validate, ReportsWeightsThatAreNoNumbers) {
  const std::string path = seedling_with_nan();
  const Outcome outcome = run_program({"validate", path});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai validate: " + path + ": 1 block of weights with an infinity or a NaN\n");
  EXPECT_NE(outcome.out.find("infinity or NaN in 1 of "), std::string::npos) << outcome.out;
}

TEST(Backends, ShowsEachWithItsDevicesAndOptions) {
  const Outcome outcome = run_program({"backends"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.out.find(backend_file("cpu")), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("cpu.threads"), std::string::npos) << outcome.out;
  const json all = parse_success(run_program({"backends", "--json"}));
  const auto cpu = std::find_if(all.begin(), all.end(), [](const json &backend) { return backend["name"] == "cpu"; });
  ASSERT_NE(cpu, all.end());
  EXPECT_EQ((*cpu)["abi"], "0.10");
  EXPECT_EQ((*cpu)["level"], 2);
  EXPECT_EQ((*cpu)["usable"], true);
}

TEST(Backends, ShowsOneByItsName) {
  const Outcome outcome = run_program({"backends", "cpu"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("cpu 0.")) << outcome.out;
  EXPECT_EQ(outcome.out.find("template"), std::string::npos) << outcome.out;
  EXPECT_EQ(run_program({"backends", "nobody"}).exit_code, 1);
}

// As --backend does: a file or folder of that name is another thing.
TEST(Backends, AFileHasASlash) {
  const std::filesystem::path start = std::filesystem::current_path();
  const std::string folder = make_folder("names");
  std::ofstream(folder + "/cpu") << "";
  std::filesystem::current_path(folder);
  const Outcome by_name = run_program({"backends", "cpu"}), by_path = run_program({"backends", "./cpu"});
  const Outcome neither = run_program({"backends", "lib cpu.so"});
  std::filesystem::current_path(start);
  EXPECT_EQ(by_name.exit_code, 0) << by_name.out;
  EXPECT_EQ(by_path.exit_code, 1);
  EXPECT_EQ(by_path.out, "cpu: ./cpu\n  not used: an empty file, not a shared object\n");
  EXPECT_EQ(neither.exit_code, 1);
  EXPECT_EQ(neither.out,
            "lib cpu.so: lib cpu.so\n  not used: neither a backend's name nor a path (a path has a '/')\n");
}

// A broken copy ahead of it, and a second one that it hides.
TEST(Backends, ANameIsUsableWhereOneOfItsFilesIs) {
  const std::string first = make_folder("first"), second = make_folder("second");
  std::ofstream(first + "/libbonsai_cpu.so") << "broken";
  std::filesystem::copy_file(backend_file("cpu"), second + "/libbonsai_cpu.so");
  const std::string built = std::filesystem::path(backend_file("cpu")).parent_path();
  setenv("BONSAI_BACKEND_PATH", (first + ":" + built + ":" + second).c_str(), 1);
  const Outcome shown = run_program({"backends", "cpu"}), warmed = run_program({"backends", "cpu", "--warm"});
  unsetenv("BONSAI_BACKEND_PATH");
  EXPECT_EQ(shown.exit_code, 0) << shown.out;
  EXPECT_NE(shown.out.find("not used: not a shared object"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("not used: a backend of this name was found earlier"), std::string::npos) << shown.out;
  EXPECT_EQ(warmed.exit_code, 0) << warmed.out;
}

// A file that is a backend, and whose device cannot be asked what it is.
TEST(Backends, OneThatIsGivenAndUnusableIsAFailure) {
  const std::string directory = BONSAI_BINARY_DIR "/tests/backends/libbonsai_";
  for (const char *name : {"no_device", "garbage_options", "too_many_devices"}) {
    const std::string file = directory + name + ".so";
    const Outcome outcome = run_program({"backends", file});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.out.find("not used: "), std::string::npos) << outcome.out;
    const Outcome as_json = run_program({"backends", file, "--json"});
    EXPECT_EQ(as_json.exit_code, 1);
    EXPECT_EQ(json::parse(as_json.out)[0]["usable"], false);
  }
}

TEST(Backends, WarmSaysWhereNothingIsToBeMadeReady) {
  const Outcome outcome = run_program({"backends", backend_file("cpu"), "--warm"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "no device has anything to make ready\n");
  EXPECT_EQ(run_program({"backends", backend_file("cpu"), "--warm", "--json"}).out, "[]\n");
}

TEST(Backends, WarmMakesEveryDeviceReadyAndShowsWhatItIsTold) {
  const std::string library = BONSAI_BINARY_DIR "/tests/backends/libbonsai_warm.so";
  const Outcome outcome = run_program({"backends", library, "--warm"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "warm device 0: ready\nwarm device 1: ready\n");
  EXPECT_EQ(outcome.err, "making ready\nmaking ready\n");
  EXPECT_EQ(run_program({"backends", library, "--warm", "--log-level", "off"}).err, "");
  const json all = parse_success(run_program({"backends", library, "--warm", "--json"}));
  EXPECT_EQ(all, json::parse(R"([{"backend": "warm", "device": 0, "ready": true, "reason": ""},
                                 {"backend": "warm", "device": 1, "ready": true, "reason": ""}])"));
}

TEST(Backends, WarmFailsWhereOneDeviceDoes) {
  const std::string directory = BONSAI_BINARY_DIR "/tests/backends/";
  const Outcome outcome =
      run_program({"backends", directory + "libbonsai_warm_fails.so", directory + "libbonsai_warm.so", "--warm"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("warm_fails device 0: "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("the device has 2 GB, 4 are needed"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("warm device 1: ready"), std::string::npos) << outcome.out;
}

// An image that is built with it would lack what it was to hold.
TEST(Backends, WarmFailsWhereAGivenOneHasNoDevice) {
  const std::string library = BONSAI_BINARY_DIR "/tests/backends/libbonsai_no_device.so";
  const Outcome outcome = run_program({"backends", library, "--warm"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.out, "no_device device 0: libfake.so.1 is not installed\n");
}

TEST(Backends, SaysWhereANameWasLookedFor) {
  const Outcome outcome = run_program({"backends", "nosuch"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("libbonsai_nosuch.so\n  not used: not found in /"), std::string::npos) << outcome.out;
}

TEST(Backends, SaysWhyAFileIsNone) {
  const std::string path = write_file("libbonsai_text.so", "not a shared object");
  const Outcome outcome = run_program({"backends", path});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("  not used: "), std::string::npos) << outcome.out;
  EXPECT_EQ(run_program({"backends", path, "--warm"}).exit_code, 1);
  const json all = json::parse(run_program({"backends", path, "--json"}).out);
  EXPECT_EQ(all[0]["usable"], false);
  EXPECT_NE(all[0]["reason"], "");
}

}  // namespace
}  // namespace bonsai::cli
