// Writes the logits that llama.cpp computes for a text: see README.md beside this. Not a part of the build.
//
//   llama_logits MODEL WINDOW TOKENS THREADS < IDS > LOGITS
//
// IDS is what `bonsai tokenize --ids` prints, of which the first TOKENS count; they are evaluated in windows, each from
// an empty cache. LOGITS is what `bonsai perplexity --logits` reads: float32, a row of the vocabulary for each token.
#include <llama.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "llama_logits: %s\n", what);
  std::exit(1);
}

// The numbers in a text, whatever stands between them.
std::vector<llama_token> read_ids(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isdigit(c); }, ' ');
  std::vector<llama_token> ids;
  char *rest = text.data();
  for (char *end = nullptr;; rest = end) {
    const long id = std::strtol(rest, &end, 10);
    if (end == rest) return ids;
    ids.push_back(static_cast<llama_token>(id));
  }
}

// Evaluates a window and writes its rows.
void write_window(llama_context *context, llama_batch &batch, const llama_token *tokens, int n, size_t vocabulary) {
  llama_memory_clear(llama_get_memory(context), true);
  batch.n_tokens = n;
  for (int i = 0; i < n; ++i) {
    batch.token[i] = tokens[i];
    batch.pos[i] = i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = 1;
  }
  if (llama_decode(context, batch) != 0) fail("llama_decode failed");
  for (int i = 0; i < n; ++i) {
    const float *row = llama_get_logits_ith(context, i);
    if (std::fwrite(row, sizeof *row, vocabulary, stdout) != vocabulary) fail("cannot write");
  }
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) fail("expected MODEL WINDOW TOKENS THREADS < IDS > LOGITS");
  const int window = std::atoi(argv[2]), wanted = std::atoi(argv[3]), threads = std::atoi(argv[4]);
  if (window < 1 || wanted < 1 || threads < 1) fail("expected numbers above 0 for WINDOW, TOKENS and THREADS");
  const std::vector<llama_token> tokens = read_ids({std::istreambuf_iterator<char>(std::cin), {}});
  if (static_cast<int>(tokens.size()) < wanted) fail("there are fewer ids than TOKENS");

  llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
  llama_backend_init();
  llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (!model) fail("cannot load the model");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = static_cast<uint32_t>(window);
  params.n_threads = params.n_threads_batch = threads;
  llama_context *context = llama_init_from_model(model, params);
  if (!context) fail("cannot make a context");

  const auto vocabulary = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model)));
  llama_batch batch = llama_batch_init(window, 0, 1);
  for (int first = 0; first < wanted; first += window) {
    write_window(context, batch, tokens.data() + first, std::min(window, wanted - first), vocabulary);
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}
