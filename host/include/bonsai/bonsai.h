/* Bonsai's library for C, and for every language that can call C: what engine.h, chat.h and batch_engine.h are for C++.
 *
 *   static int32_t print(void *context, bonsai_piece piece, const char *text, uint64_t n_bytes) {
 *     return fwrite(text, 1, n_bytes, stdout) == n_bytes ? 0 : 1;
 *   }
 *
 *   bonsai_failure failure = {.struct_size = sizeof failure};  // in C++: {}, and then the field
 *   bonsai_engine_options options;
 *   bonsai_engine_options_init(&options, sizeof options);
 *   options.model = "Bonsai-8B.gguf";
 *   bonsai_engine *engine;
 *   if (bonsai_engine_load(&options, &engine, &failure) != BONSAI_SUCCESS) return puts(failure.message), 1;
 *   bonsai_engine_generate(engine, "Once upon a time", BONSAI_TO_NUL, NULL, print, NULL, NULL, NULL);
 *   bonsai_engine_free(engine);
 *
 * The library keeps no global state, prints nothing and never ends the process.
 *
 * Rules for every call
 *
 * Structs: those that are handed over one at a time begin with `struct_size`. Options are filled by their _init
 * function, which the caller tells the size that it was compiled with, and which fails on NULL, on less than
 * struct_size takes, and on an unknown preset. Fields may be added at the ends of structs: a library reads what both
 * sides know, and what it does not know of a struct that it fills is 0.
 *
 * Outcomes: BONSAI_SUCCESS, or what went wrong; then `failure`, which may be NULL, has a line for a person, what
 * would have been made is NULL, and nothing else has changed unless the function says so.
 *
 * Texts: UTF-8, of so many bytes (0 with NULL is the empty text), or BONSAI_TO_NUL for those up to a NUL. Texts that
 * are handed out are whole characters, and followed by a NUL that does not count.
 *
 * Arrays: a function that fills an array of the caller's sets *n to the number of elements that there are, and fills
 * in as many as `capacity` allows: call it with 0 and NULL to learn how many that is.
 *
 * Ownership: whatever a function makes, the function named at it ends; NULL is allowed there, and the order is free:
 * what is still needed of an engine stays. Strings that are passed in are copied.
 *
 * Threads: an engine and a batch may be used by any number of threads at once, sessions and chats by one at a time.
 * Callbacks are called by the thread that made the call, but for the log and those of a batch. A thread that calls
 * needs 1 MiB of stack, for a chat template or a grammar that nests as deep as is taken; without any, 128 KiB are
 * enough. Nothing here may be called by a signal handler.
 *
 * Processes: one that fork() makes has the thread that called it and no other. Batches made before may there be neither
 * used nor freed; engines and what else was made on the CPU may, unless a call was under way, and compute with that one
 * thread. An engine that is loaded there has all that it asks for if none was loaded before; else it may have fewer
 * threads, which bonsai_engine_describe tells.
 *
 * Callbacks: they must return; no exception and no longjmp may leave them. Until the call that they belong to is over,
 * others that change the same session or chat, or save it, are refused. One that is freed meanwhile is gone for the
 * caller, and lives until that call is over, which goes on to its end.
 */
#ifndef BONSAI_BONSAI_H
#define BONSAI_BONSAI_H

#include <stdint.h>

#if defined(_WIN32)
#define BONSAI_C_API
#else
#define BONSAI_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define BONSAI_TO_NUL UINT64_MAX

typedef uint32_t bonsai_outcome;
enum {
  BONSAI_SUCCESS = 0,
  BONSAI_BAD_ARGUMENT = 1, /* a caller's mistake: an option, a token id, a text that is not UTF-8, a NULL; and a file of
                              a session that cannot be read, written or used here */
  BONSAI_BAD_MODEL = 2,    /* the model's file cannot be read or is refused, or lacks what was asked for */
  BONSAI_BACKEND_FAILED = 3, /* no backend could be opened; or one failed, for want of memory or whatever else, and the
                                CPU could not take over */
  BONSAI_CONTEXT_FULL = 4,   /* the sequence does not fit */
  BONSAI_NO_MEMORY = 5,      /* of this host, for what the library does itself and no backend */
  BONSAI_FAILED = 6          /* anything else */
};

typedef struct bonsai_failure {
  uint32_t struct_size;
  bonsai_outcome outcome;
  char message[1016]; /* NUL-terminated, one line: what is wrong and what was expected */
} bonsai_failure;

/* The library's version, "0.1.0". */
BONSAI_C_API const char *bonsai_version(void);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Engines */

/* A model on a device: on the CPU, once another backend has failed. */
typedef struct bonsai_engine bonsai_engine;

/* Weights brought to the device so far and in all, in bytes. */
typedef void (*bonsai_progress_fn)(void *context, uint64_t done_bytes, uint64_t total_bytes);
/* A line for a person: which backend was chosen and why others were not, warnings about the file. Levels are 0 (debug),
 * 1 (info), 2 (warning) and 3 (error). May be called by any thread, by one at a time, as long as the engine or
 * something made from it lives, and must not call these. */
typedef void (*bonsai_engine_log_fn)(void *context, uint32_t level, const char *line);

typedef struct bonsai_engine_options {
  uint32_t struct_size;
  uint32_t threads;        /* of the CPU backend; 0: its own choice */
  const char *model;       /* path of a GGUF file; of a model in parts, the first one */
  const char *backend;     /* NULL or "auto"; a name, "cpu"; or the path of a shared object, with a '/' */
  uint32_t backend_strict; /* 1: what was asked for or a failure; 0: else the CPU takes over */
  uint32_t n_backend_options;
  const char *const *backend_options; /* (n_backend_options), each "key=value": "cpu.isa=avx2" */
  uint32_t context;                   /* most tokens of a session; 0: the model's, or 4,096 if that is less;
                                         UINT32_MAX: the model's */
  uint32_t reserved;                  /* must be 0 */
  const char *kv;                     /* what keys and values are stored as: NULL or "f16"; "q8_0", "f32" */
  bonsai_progress_fn progress;        /* may be NULL */
  void *progress_context;
  bonsai_engine_log_fn log; /* may be NULL */
  void *log_context;
  const char *chat_template; /* in Jinja, in the place of the file's own; NULL: that one */
} bonsai_engine_options;

/* Everything to its default, `model` to NULL. */
BONSAI_C_API bonsai_outcome bonsai_engine_options_init(bonsai_engine_options *options, uint64_t struct_size);

/* Maps and checks the file, opens a backend and brings the weights to it. Ended by bonsai_engine_free. */
BONSAI_C_API bonsai_outcome bonsai_engine_load(const bonsai_engine_options *options, bonsai_engine **engine,
                                               bonsai_failure *failure);
BONSAI_C_API void bonsai_engine_free(bonsai_engine *engine);

typedef struct bonsai_engine_info {
  uint32_t struct_size;
  uint32_t vocabulary;
  uint32_t trained_context; /* positions that the model knows */
  uint32_t context;         /* most tokens of a session here */
  uint32_t embedding;       /* numbers in an embedding */
  uint32_t threads;         /* of this machine's processor that compute; 0: none, or the backend does not say */
  uint64_t weight_bytes;    /* on the device, mapped file pages not counted */
  uint64_t mapped_bytes;    /* of the file, used in place */
  uint64_t session_bytes;   /* KV cache and scratch of one session */
  char model[128];  /* as the file calls itself, or empty; this and the following are cut where they are longer */
  char backend[72]; /* where new sessions run */
  char device[128];
} bonsai_engine_info;

/* What the engine is now. The caller sets info->struct_size. */
BONSAI_C_API bonsai_outcome bonsai_engine_describe(const bonsai_engine *engine, bonsai_engine_info *info,
                                                   bonsai_failure *failure);

/* Ids of a text, nothing added in front. `parse_special` 1: special tokens that are spelled out are one token each; 0:
 * they are plain text. */
BONSAI_C_API bonsai_outcome bonsai_engine_tokenize(const bonsai_engine *engine, const char *text, uint64_t n_bytes,
                                                   uint32_t parse_special, int32_t *tokens, uint64_t capacity,
                                                   uint64_t *n, bonsai_failure *failure);
/* Ids of a text as a session has them that it is appended to first: special tokens count as such, and in front stands
 * what the model wants there (its BOS). */
BONSAI_C_API bonsai_outcome bonsai_engine_tokenize_prompt(const bonsai_engine *engine, const char *text,
                                                          uint64_t n_bytes, int32_t *tokens, uint64_t capacity,
                                                          uint64_t *n, bonsai_failure *failure);
/* *ends: 1 if a text ends where the model chooses this token (its EOS, <|im_end|> and their kin), else 0. */
BONSAI_C_API bonsai_outcome bonsai_engine_ends_text(const bonsai_engine *engine, int32_t token, uint32_t *ends,
                                                    bonsai_failure *failure);
/* The text of ids: no NUL follows, and characters of which not all bytes are there are in it as they are. Control
 * tokens are no text, but for <think>, </think>, <tool_call> and </tool_call>. */
BONSAI_C_API bonsai_outcome bonsai_engine_detokenize(const bonsai_engine *engine, const int32_t *tokens,
                                                     uint64_t n_tokens, char *text, uint64_t capacity, uint64_t *n,
                                                     bonsai_failure *failure);
/* The same with all control tokens spelled out. */
BONSAI_C_API bonsai_outcome bonsai_engine_spell_out(const bonsai_engine *engine, const int32_t *tokens,
                                                    uint64_t n_tokens, char *text, uint64_t capacity, uint64_t *n,
                                                    bonsai_failure *failure);

typedef uint32_t bonsai_pooling;
enum {
  BONSAI_POOLING_MEAN = 0, /* of all tokens' final hidden states */
  BONSAI_POOLING_LAST = 1, /* the last token's */
  BONSAI_POOLING_MODEL = 2 /* what the model's file says, else the mean */
};

/* A vector of length 1 for a text, of bonsai_engine_info's `embedding` numbers: texts are alike where the dot product
 * of theirs is near 1. Special tokens that are spelled out are plain text. Fails if `capacity` is less than that. */
BONSAI_C_API bonsai_outcome bonsai_engine_embed(const bonsai_engine *engine, const char *text, uint64_t n_bytes,
                                                bonsai_pooling pooling, float *vector, uint64_t capacity,
                                                bonsai_failure *failure);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Generating */

/* What ends a generation from another thread: at the next token, or between two pieces of a long prompt. It may serve
 * several, and once requested stays so. */
typedef struct bonsai_stop bonsai_stop;
BONSAI_C_API bonsai_stop *bonsai_stop_new(void); /* NULL: out of memory. Ended by bonsai_stop_free */
BONSAI_C_API void bonsai_stop_request(bonsai_stop *stop);
BONSAI_C_API void bonsai_stop_free(bonsai_stop *stop);

/* How tokens are chosen is said field by field in sampling.h; the fields are its fields. */
typedef struct bonsai_generate_options {
  uint32_t struct_size;
  uint32_t max_tokens;
  float temperature; /* 0: the largest logit wins and nothing is random */
  uint32_t top_k;    /* 0: all */
  float top_p;
  float min_p;
  float repetition_penalty;
  float presence_penalty;
  float frequency_penalty;
  int32_t penalty_window; /* tokens that penalties look back at; -1: all, 0: none */
  uint32_t has_seed;      /* 1: `seed` counts: equal seeds give equal choices; 0: one is drawn */
  uint32_t ignore_eos;    /* 1: tokens that end a text are never chosen */
  uint64_t seed;
  uint32_t n_logit_bias;
  uint32_t n_stops;
  const int32_t *bias_tokens; /* (n_logit_bias) */
  const float *bias_adds;     /* (n_logit_bias), added to these tokens' logits; -infinity forbids them */
  const char *const *stops;   /* (n_stops): the text ends before the first of these, none of which is empty */
  const char *grammar;        /* GBNF; NULL or empty: none */
  const char *json_schema;    /* likewise; not both */
  uint32_t lookup;            /* 1: guess at the next tokens by what followed the last ones earlier */
  uint32_t reserved;          /* must be 0 */
  const bonsai_engine *draft; /* a smaller model with the same vocabulary that guesses, or NULL. No effect in a batch */
  const bonsai_stop *stop;    /* or NULL */
  uint32_t n_logprobs; /* not 0: the generation tells how likely each token was, and so many of the likeliest; at most
                          all there are */
  uint32_t has_prompt_logprobs;  /* 1, with n_logprobs and for a batch's texts only: the same of the prompt, ... */
  uint32_t prompt_logprobs_from; /* ... from the token with this index on */
  int32_t priority; /* of a text started in a batch: the higher goes first, else the earlier. No effect elsewhere */
} bonsai_generate_options;

/* The defaults with a preset's way of choosing: "greedy", "balanced", "creative", "code", or NULL for "balanced". */
BONSAI_C_API bonsai_outcome bonsai_generate_options_init(bonsai_generate_options *options, uint64_t struct_size,
                                                         const char *preset);
/* The defaults with the way of choosing that the model's file asks for (general.sampling.*), "balanced" for what it
 * does not say. Where a function's `options` are NULL that is "balanced", whatever the file says. */
BONSAI_C_API bonsai_outcome bonsai_engine_generate_options(const bonsai_engine *engine,
                                                           bonsai_generate_options *options, uint64_t struct_size,
                                                           bonsai_failure *failure);

typedef uint32_t bonsai_piece;
enum {
  BONSAI_PIECE_TEXT = 0,      /* of a text, or a chat's answer */
  BONSAI_PIECE_REASONING = 1, /* what a chat's model thinks before it answers */
  BONSAI_PIECE_TOOL_CALL = 2  /* a call of one of a chat's tools, whole: {"name": ..., "arguments": {...}} */
};

/* Receives a text as it comes, never empty. 0 goes on; anything else ends the generation. */
typedef int32_t (*bonsai_text_fn)(void *context, bonsai_piece piece, const char *text, uint64_t n_bytes);

typedef uint32_t bonsai_finish;
enum {
  BONSAI_FINISH_LENGTH = 0,      /* max_tokens reached */
  BONSAI_FINISH_END_OF_TEXT = 1, /* the model ended its text, or the grammar allows nothing more */
  BONSAI_FINISH_STOP_STRING = 2,
  BONSAI_FINISH_CONTEXT_FULL = 3, /* the session holds no more tokens */
  BONSAI_FINISH_CANCELLED = 4     /* by the callback or a bonsai_stop */
};

/* A token and the natural logarithm of its probability; -infinity for one that cannot be. An array's element, like the
 * next: neither will grow. */
typedef struct bonsai_logprob {
  double logprob;
  int32_t token;
  uint32_t reserved;
} bonsai_logprob;

/* One place of a text, in the model's own distribution: the softmax of its logits over the whole vocabulary, before
 * grammar, bias, penalties and temperature change anything. */
typedef struct bonsai_token_logprobs {
  bonsai_logprob chosen;
  const bonsai_logprob *top; /* (n_top), the likeliest, in falling order; `chosen` need not be among them */
  uint64_t n_top;
} bonsai_token_logprobs;

/* What came of it; made by the library, which sets struct_size, and read only. */
typedef struct bonsai_generation {
  uint32_t struct_size;
  bonsai_finish finish;
  const char *text; /* of a chat: the answer */
  uint64_t n_bytes;
  const char *reasoning; /* of a chat; else empty */
  uint64_t n_reasoning_bytes;
  const int32_t *tokens; /* without the one that ended the text; of a chat with its reasoning and the tags of that */
  uint64_t n_tokens;
  const char *failed_over; /* why the backend was left for the CPU meanwhile; NULL: it was not */
  uint64_t seed;           /* that was used */
  uint32_t prompt_tokens;  /* that were computed before the first new one */
  uint32_t reused_tokens;  /* of a chat: what the session, or the batch, held already */
  double prompt_seconds;
  uint32_t decode_steps;  /* new tokens that were fed back: all but the last */
  uint32_t decode_passes; /* of the model for these: as many, or fewer where guesses were right */
  double decode_seconds;  /* time for these, for sampling and for guessing */
  const char *tool_calls; /* of a chat: a JSON array of what the model calls; empty: nothing */
  uint64_t n_tool_calls_bytes;
  const bonsai_token_logprobs *logprobs;     /* (n_tokens), if n_logprobs of the options asks for them; else NULL */
  const bonsai_token_logprobs *end_logprobs; /* likewise of the token that ended the text; NULL: the model chose none */
  const bonsai_token_logprobs *prompt_logprobs; /* (n_prompt_logprobs): one for each token of the prompt from
                                                   prompt_logprobs_from on, but none for the first of all, which
                                                   follows nothing; fewer if the text was cancelled before */
  uint64_t n_prompt_logprobs;
} bonsai_generation;

BONSAI_C_API void bonsai_generation_free(const bonsai_generation *generation);

/* Continues a prompt in a session of its own. `options` NULL: the defaults. `receive` and `generation` may be NULL;
 * what *generation is set to is ended by bonsai_generation_free. */
BONSAI_C_API bonsai_outcome bonsai_engine_generate(const bonsai_engine *engine, const char *prompt, uint64_t n_bytes,
                                                   const bonsai_generate_options *options, bonsai_text_fn receive,
                                                   void *context, const bonsai_generation **generation,
                                                   bonsai_failure *failure);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Sessions */

/* One sequence of tokens with its KV cache. */
typedef struct bonsai_engine_session bonsai_engine_session;

BONSAI_C_API bonsai_outcome bonsai_session_new(const bonsai_engine *engine, bonsai_engine_session **session,
                                               bonsai_failure *failure);
BONSAI_C_API void bonsai_session_free(bonsai_engine_session *session);

/* Puts a text at the end; special tokens that are spelled out count as such, and at the start comes the model's BOS if
 * it wants one. Nothing is computed yet. */
BONSAI_C_API bonsai_outcome bonsai_session_append(bonsai_engine_session *session, const char *text, uint64_t n_bytes,
                                                  bonsai_failure *failure);
BONSAI_C_API bonsai_outcome bonsai_session_append_tokens(bonsai_engine_session *session, const int32_t *tokens,
                                                         uint64_t n_tokens, bonsai_failure *failure);

/* Continues the sequence; what was generated stays at its end, also after a failure. Else as bonsai_engine_generate. */
BONSAI_C_API bonsai_outcome bonsai_session_generate(bonsai_engine_session *session,
                                                    const bonsai_generate_options *options, bonsai_text_fn receive,
                                                    void *context, const bonsai_generation **generation,
                                                    bonsai_failure *failure);

/* The logits that follow the last token, one for each of the vocabulary. Fails if `capacity` is less than that. */
BONSAI_C_API bonsai_outcome bonsai_session_logits(bonsai_engine_session *session, float *logits, uint64_t capacity,
                                                  bonsai_failure *failure);

/* Tokens of the sequence, and how many can still be appended. 0 for NULL. */
BONSAI_C_API uint32_t bonsai_session_length(const bonsai_engine_session *session);
BONSAI_C_API uint32_t bonsai_session_room(const bonsai_engine_session *session);
BONSAI_C_API bonsai_outcome bonsai_session_tokens(const bonsai_engine_session *session, int32_t *tokens,
                                                  uint64_t capacity, uint64_t *n, bonsai_failure *failure);
/* Forgets every token from `length` on; a length beyond the end changes nothing. */
BONSAI_C_API bonsai_outcome bonsai_session_truncate(bonsai_engine_session *session, uint32_t length,
                                                    bonsai_failure *failure);

/* Writes tokens, keys and values to a file; loading puts them in the place of what the session holds. A file that holds
   something else than a session is not replaced: that fails. */
BONSAI_C_API bonsai_outcome bonsai_session_save(const bonsai_engine_session *session, const char *path,
                                                bonsai_failure *failure);
BONSAI_C_API bonsai_outcome bonsai_session_load(bonsai_engine_session *session, const char *path,
                                                bonsai_failure *failure);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Chats */

/* A conversation over a session of its own, in the model's chat template. */
typedef struct bonsai_chat bonsai_chat;

typedef uint32_t bonsai_thinking;
enum {
  BONSAI_THINKING_AUTO = 0, /* as the template likes it */
  BONSAI_THINKING_ON = 1,
  BONSAI_THINKING_OFF = 2
};

typedef struct bonsai_chat_options {
  uint32_t struct_size;
  bonsai_thinking thinking;
  const char *system; /* what the model is told first; NULL: nothing */
  const char *tools;  /* a JSON array of function descriptions; NULL: none */
} bonsai_chat_options;

BONSAI_C_API bonsai_outcome bonsai_chat_options_init(bonsai_chat_options *options, uint64_t struct_size);

/* A message of a conversation that the caller keeps: texts up to a NUL, NULL for none. An array's element: it will not
 * grow. What tool_calls may say stands in chat.h. */
typedef struct bonsai_message {
  const char *role; /* "user", "assistant", "tool", or another that the model's template knows; not NULL */
  const char *content;
  const char *reasoning;  /* of an assistant: what it thought before it answered */
  const char *tool_calls; /* of an assistant: a JSON array of what it calls; of a tool: the call that it answers */
} bonsai_message;

/* Ids of a conversation as the model reads it, in its chat template: the options' system prompt and tools, `n_messages`
 * messages, and the beginning of the answer. `options` NULL: the defaults. */
BONSAI_C_API bonsai_outcome bonsai_engine_apply_template(const bonsai_engine *engine, const bonsai_message *messages,
                                                         uint64_t n_messages, const bonsai_chat_options *options,
                                                         int32_t *tokens, uint64_t capacity, uint64_t *n,
                                                         bonsai_failure *failure);

/* `options` NULL: the defaults. Ended by bonsai_chat_free. */
BONSAI_C_API bonsai_outcome bonsai_chat_new(const bonsai_engine *engine, const bonsai_chat_options *options,
                                            bonsai_chat **chat, bonsai_failure *failure);
BONSAI_C_API void bonsai_chat_free(bonsai_chat *chat);

/* Adds a message of the user and the model's answer. An answer that is cancelled or runs into the end of the context
 * stays as far as it came; one that is cancelled before its first piece takes the user's message with it, and so does
 * one that fails. BONSAI_NO_MEMORY may come behind the end, for want of room to hand the answer over: then both stay.
 */
BONSAI_C_API bonsai_outcome bonsai_chat_send(bonsai_chat *chat, const char *text, uint64_t n_bytes,
                                             const bonsai_generate_options *options, bonsai_text_fn receive,
                                             void *context, const bonsai_generation **generation,
                                             bonsai_failure *failure);

/* Answers the last message once more, in place of the answer that it has; which it keeps where the new one is cancelled
 * before its first piece, or fails. */
BONSAI_C_API bonsai_outcome bonsai_chat_regenerate(bonsai_chat *chat, const bonsai_generate_options *options,
                                                   bonsai_text_fn receive, void *context,
                                                   const bonsai_generation **generation, bonsai_failure *failure);

/* Adds a message without an answer, by "user", "assistant" or "tool", which is what a tool that was called has said, or
 * another role that the model's template knows: that it does not is said when the model is to answer.
 * bonsai_chat_respond has it answer then. */
BONSAI_C_API bonsai_outcome bonsai_chat_add(bonsai_chat *chat, const char *role, const char *text, uint64_t n_bytes,
                                            bonsai_failure *failure);
BONSAI_C_API bonsai_outcome bonsai_chat_respond(bonsai_chat *chat, const bonsai_generate_options *options,
                                                bonsai_text_fn receive, void *context,
                                                const bonsai_generation **generation, bonsai_failure *failure);

/* Forgets all messages; system prompt, tools and options stay. */
BONSAI_C_API bonsai_outcome bonsai_chat_reset(bonsai_chat *chat, bonsai_failure *failure);

/* The conversation in a file, with its keys and values; and on from there. */
BONSAI_C_API bonsai_outcome bonsai_chat_save_session(const bonsai_chat *chat, const char *path,
                                                     bonsai_failure *failure);
BONSAI_C_API bonsai_outcome bonsai_chat_load_session(bonsai_chat *chat, const char *path, bonsai_failure *failure);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Batches */

/* Many texts at once, in one batch after the other, by a thread of its own. What a text says does not depend on the
 * others: not on how many there are, when they came, or what they share. */
typedef struct bonsai_batch_engine bonsai_batch_engine;

typedef struct bonsai_batch_options {
  uint32_t struct_size;
  uint32_t max_sequences; /* texts that are computed at once; more than that wait */
  uint32_t batch_tokens;  /* most in one step; at least max_sequences. More let long prompts pass faster, fewer keep the
                             texts meanwhile flowing */
  uint32_t kv_tokens; /* that the KV cache holds, shared by all texts and by what is kept of earlier ones; 0: as many
                         as max_sequences full contexts, or 16,384 (or one context) if that is less */
  uint32_t
      share_prefixes; /* 1: prompts that begin alike are computed once, for as long as there is room to keep them */
} bonsai_batch_options;

BONSAI_C_API bonsai_outcome bonsai_batch_options_init(bonsai_batch_options *options, uint64_t struct_size);

/* `options` NULL: the defaults. Ended by bonsai_batch_free. */
BONSAI_C_API bonsai_outcome bonsai_batch_new(const bonsai_engine *engine, const bonsai_batch_options *options,
                                             bonsai_batch_engine **batch, bonsai_failure *failure);
/* Texts that have not ended end as cancelled, and no callback comes once it returns. Until then callbacks may go on
 * using the batch, and what they start is refused. Within one of its callbacks it returns at once and that happens
 * behind it: they may not use the batch any more. */
BONSAI_C_API void bonsai_batch_free(bonsai_batch_engine *batch);

/* What goes on in a batch; counts are since it was made. */
typedef struct bonsai_batch_info {
  uint32_t struct_size;
  uint32_t running; /* texts */
  uint32_t waiting; /* texts */
  uint32_t context; /* most tokens of a text: the engine's, or the KV cache if that is smaller */
  uint32_t kv_blocks;
  uint32_t kv_blocks_free; /* never used or given back */
  uint32_t kv_blocks_kept; /* with what nobody uses just now, but may again */
  uint32_t kv_block_tokens;
  uint64_t steps;
  uint64_t computed_tokens; /* in these, prompts included, and again what was computed again */
  uint64_t reused_tokens;   /* that did not have to be computed, as an earlier text or one's own had */
  uint64_t preemptions;     /* times that a text gave its place to one that came before */
  uint64_t memory_bytes;    /* KV cache and scratch */
  char backend[72];         /* where it runs; this and the following are cut where they are longer */
  char device[128];
} bonsai_batch_info;

/* The caller sets info->struct_size. */
BONSAI_C_API bonsai_outcome bonsai_batch_describe(const bonsai_batch_engine *batch, bonsai_batch_info *info,
                                                  bonsai_failure *failure);

/* A text has ended: with a generation, which the callee ends by bonsai_generation_free, then or later; or with NULL and
 * `failure`, which is valid during the call. */
typedef void (*bonsai_done_fn)(void *context, const bonsai_generation *generation, const bonsai_failure *failure);

/* Continues a prompt as bonsai_engine_generate does: the same text for the same options. What is wrong with the request
 * is said here; else `done` is called once, and after that neither is called any more. Both are called by the batch's
 * thread: all texts wait for them, and they must not wait for one. They may start others. `receive` may be NULL. A text
 * that its callback or options->stop cancels is in no further step. */
BONSAI_C_API bonsai_outcome bonsai_batch_start(bonsai_batch_engine *batch, const char *prompt, uint64_t n_bytes,
                                               const bonsai_generate_options *options, bonsai_text_fn receive,
                                               bonsai_done_fn done, void *context, bonsai_failure *failure);
BONSAI_C_API bonsai_outcome bonsai_batch_start_tokens(bonsai_batch_engine *batch, const int32_t *tokens,
                                                      uint64_t n_tokens, const bonsai_generate_options *options,
                                                      bonsai_text_fn receive, bonsai_done_fn done, void *context,
                                                      bonsai_failure *failure);

/* Answers a conversation that the caller keeps as bonsai_chat_respond does: reasoning and calls of tools are pieces of
 * their own, and fields of the generation. `chat` NULL: the defaults. Else as bonsai_batch_start. */
BONSAI_C_API bonsai_outcome bonsai_batch_start_chat(bonsai_batch_engine *batch, const bonsai_message *messages,
                                                    uint64_t n_messages, const bonsai_chat_options *chat,
                                                    const bonsai_generate_options *options, bonsai_text_fn receive,
                                                    bonsai_done_fn done, void *context, bonsai_failure *failure);

/* Continues `n` prompts, each up to a NUL, with the same options, and waits for all: within a callback of the batch
 * that is refused. `generations` (n) receives what bonsai_generation_free ends. Where one fails the others are
 * cancelled, and all are NULL. */
BONSAI_C_API bonsai_outcome bonsai_batch_generate(bonsai_batch_engine *batch, const char *const *prompts, uint64_t n,
                                                  const bonsai_generate_options *options,
                                                  const bonsai_generation **generations, bonsai_failure *failure);

#ifdef __cplusplus
}
#endif

#endif
