/* What a program that is host and backend at once sees: both public headers, in C and in C++. Each name is one of them.
 */
#include <bonsai/backend.h>
#include <bonsai/bonsai.h>

/* The library's handles are opaque, also beside the ABI's structs: what is defined here is defined nowhere else. */
struct bonsai_engine {
  char unused;
};
struct bonsai_stop {
  char unused;
};
struct bonsai_engine_session {
  char unused;
};
struct bonsai_chat {
  char unused;
};
struct bonsai_batch_engine {
  char unused;
};

/* The ABI's batch is the ABI's, and none that the library's functions take. */
uint32_t tokens_of(const bonsai_batch *batch) { return batch->n_tokens; }
void end(bonsai_batch_engine *batch) { bonsai_batch_free(batch); }
