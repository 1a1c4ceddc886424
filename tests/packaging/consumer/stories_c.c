/* Several stories at once, in C. */
#include <bonsai/bonsai.h>
#include <stdio.h>

static int failed(const bonsai_failure *failure) {
  fprintf(stderr, "%s\n", failure->message);
  return 1;
}

int main(int argc, char **argv) {
  const char *const prompts[] = {"Once upon a time", "The King"};
  const bonsai_generation *stories[2];
  bonsai_failure failure = {.struct_size = sizeof failure};
  bonsai_engine_options options;
  bonsai_generate_options generate;
  bonsai_engine *engine;
  bonsai_batch_engine *batch;
  bonsai_outcome outcome;
  int i;
  if (argc != 2) return 2;
  bonsai_engine_options_init(&options, sizeof options);
  options.model = argv[1];
  if (bonsai_engine_load(&options, &engine, &failure) != BONSAI_SUCCESS) return failed(&failure);
  outcome = bonsai_batch_new(engine, NULL, &batch, &failure);
  bonsai_engine_free(engine);
  if (outcome != BONSAI_SUCCESS) return failed(&failure);
  bonsai_generate_options_init(&generate, sizeof generate, NULL);
  generate.max_tokens = 8;
  outcome = bonsai_batch_generate(batch, prompts, 2, &generate, stories, &failure);
  bonsai_batch_free(batch);
  if (outcome != BONSAI_SUCCESS) return failed(&failure);
  for (i = 0; i < 2; ++i) {
    printf("%s%s\n", prompts[i], stories[i]->text);
    bonsai_generation_free(stories[i]);
  }
  return 0;
}
