/* What story.cpp does, in C. */
#include <bonsai/bonsai.h>
#include <stdio.h>

static int32_t print(void *context, bonsai_piece piece, const char *text, uint64_t n_bytes) {
  (void)context;
  (void)piece;
  return fwrite(text, 1, n_bytes, stdout) == n_bytes ? 0 : 1;
}

static int failed(const bonsai_failure *failure) {
  fprintf(stderr, "%s\n", failure->message);
  return 1;
}

int main(int argc, char **argv) {
  bonsai_failure failure = {.struct_size = sizeof failure};
  bonsai_engine_options options;
  bonsai_generate_options generate;
  bonsai_engine *engine;
  bonsai_outcome outcome;
  if (argc != 2) return 2;
  bonsai_engine_options_init(&options, sizeof options);
  options.model = argv[1];
  if (bonsai_engine_load(&options, &engine, &failure) != BONSAI_SUCCESS) return failed(&failure);
  bonsai_generate_options_init(&generate, sizeof generate, NULL);
  generate.max_tokens = 8;
  outcome = bonsai_engine_generate(engine, "Once upon a time", BONSAI_TO_NUL, &generate, print, NULL, NULL, &failure);
  bonsai_engine_free(engine);
  return outcome == BONSAI_SUCCESS ? 0 : failed(&failure);
}
