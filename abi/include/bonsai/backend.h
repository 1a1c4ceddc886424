/* clang-format off */
/*
 * Bonsai backend interface, version 0.10.
 *
 * A backend is a shared object that exports one function, bonsai_backend_entry. It includes this header and nothing else
 * of Bonsai's. The host loads it, asks for its table of functions and runs Qwen3-shaped decoder models through it.
 *
 * A backend implements the device functions and `gemv` (level 0); it may add whole layers (level 1) and whole forward
 * passes (level 2). A NULL in the table means "not offered": the host then makes that level from the one below.
 *
 * The host is given a backend's path, or finds it by its NAME in the file libbonsai_NAME.so of a directory that it
 * searches (BONSAI_BACKEND_PATH names such). A file so called whose table has another name is refused.
 *
 * Rules for every call
 *
 * Structs     Begin with `struct_size`, set to sizeof by whoever owns the memory: the caller also of those that the
 *             callee fills, which leaves it as it is and writes no further. A reader uses a field only if struct_size
 *             covers it; fields are only ever appended, with a new minor version each time, and what is behind those that
 *             the reader knows means nothing to it. Arrays of structs are arrays of pointers, so elements can grow, and lie
 *             anywhere. An input struct that ends before its last field of version 0.9 is BONSAI_INVALID_ARGUMENT: ask
 *             BONSAI_REACHES, not sizeof, which grows with this header while older hosts stay as they are.
 * Unknown     Unknown flag bits and enum values are answered with BONSAI_UNSUPPORTED, a `reserved` of an input struct that
 *             is not 0 with BONSAI_INVALID_ARGUMENT.
 * Errors      A function returns a status. Its last argument may be NULL; if not, the callee fills it on failure. Output
 *             arguments are untouched on failure, but where a function says otherwise. No exception, signal, abort,
 *             exit or terminal output crosses this line; text goes to the log callback.
 * Ownership   Who creates destroys, with the function that each creator names. Memory passed in is read or written during
 *             the call only, but where a function says otherwise.
 * Threads     [any]     may be called from any thread at any time, also at once.
 *             [device]  the host serialises calls on one device and on all that was made from it (weights, sessions), but
 *                       may make each from another thread. Calls on different devices run at once.
 * Lifetime    A backend, once loaded, stays loaded until the process ends.
 * Numbers     Little-endian, IEEE 754. Sizes count elements unless named bytes. Matrices are row-major. The host leaves
 *             the floating-point environment of the thread that it calls on to its user: a backend that needs another
 *             (rounding, flushing of subnormals, traps) sets that itself, and puts back what it found. Loading it leaves that
 *             environment too, unlike compilers' start-up code for -ffast-math. How exact results are: bonsai-plugin-check.
 *
 * Legal after a failure: after BONSAI_OUT_OF_MEMORY or BONSAI_INTERNAL everything, but a failed batch's results are undefined,
 * as is the KV cache at its positions until written again, and a layer_encode or submit that failed leaves no state and no
 * token to go on from (BONSAI_INVALID_ARGUMENT). After BONSAI_DEVICE_LOST only weight_free, session_destroy and
 * device_close are called for that device, and succeed. After any other failure everything is as before the call.
 *
 * What follows from a failure: in the middle of a text, when any call fails, with whatever status, or a result cannot be
 * right, the CPU takes over and the text goes on. Such are NaN; +infinity, where no logit was adjusted; nothing above
 * -infinity, where no adjustment excludes a token; an id that the mask or an adjustment excludes with a logit above
 * -infinity; an infinity in a hidden state; and results that were not written. While a model is loaded, the host goes to the
 * next backend or to the CPU; it does not try a lower level instead. If the user asked for --backend-strict, both are
 * errors. But for kv_export and kv_import, strict or not: the host warns, and computes keys and values again.
 */
#ifndef BONSAI_BACKEND_H
#define BONSAI_BACKEND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BONSAI_ABI_MAJOR 0u
#define BONSAI_ABI_MINOR 10u

/* The name that the host looks up, and the visibility that the entry function needs. */
#define BONSAI_BACKEND_ENTRY_NAME "bonsai_backend_entry"
#if defined(_WIN32)
#define BONSAI_BACKEND_EXPORT __declspec(dllexport)
#else
#define BONSAI_BACKEND_EXPORT __attribute__((visibility("default")))
#endif

/* True if the struct behind `ptr` is large enough to hold `field`. */
#define BONSAI_HAS_FIELD(ptr, type, field) ((ptr)->struct_size >= offsetof(type, field) + sizeof((ptr)->field))

/* True if `ptr` is not NULL and its struct is whole: `last` is the type's last field in version 0.9. */
#define BONSAI_REACHES(ptr, type, last) ((ptr) && BONSAI_HAS_FIELD(ptr, type, last))

/* ------------------------------------------------------------------------------------------------------------------ */
/* Status and errors                                                                                                    */

typedef uint32_t bonsai_status;
enum {
  BONSAI_OK = 0,
  BONSAI_INVALID_ARGUMENT = 1, /* a caller's mistake: a null, an index out of range, sizes that do not fit together */
  BONSAI_UNSUPPORTED = 2,      /* a legal request that this backend or device does not serve */
  BONSAI_OUT_OF_MEMORY = 3,    /* host or device memory; the message says which and how much was asked for */
  BONSAI_DEVICE_LOST = 4,      /* the device is gone: see "Legal after a failure" above */
  BONSAI_INTERNAL = 5          /* the backend's own failure */
};

typedef struct bonsai_error {
  uint32_t struct_size;
  bonsai_status code;
  char message[496]; /* NUL-terminated UTF-8, one line: what was wrong and what was expected. The host puts the
                        backend's name before it, so it does not begin with that */
} bonsai_error;

typedef uint32_t bonsai_log_level;
enum { BONSAI_LOG_DEBUG = 0, BONSAI_LOG_INFO = 1, BONSAI_LOG_WARNING = 2, BONSAI_LOG_ERROR = 3 };

/* `message` is one line without a newline, valid during the call; it is shown as it is, and so begins with the
 * backend's name. The host's callback may be called from any thread. */
typedef void (*bonsai_log_fn)(void *context, bonsai_log_level level, const char *message);

/* ------------------------------------------------------------------------------------------------------------------ */
/* Weight formats                                                                                                       */

/* How a row's blocks are laid out. A row is a whole number of blocks. f16 is IEEE binary16. */
typedef uint32_t bonsai_dtype;
enum {
  BONSAI_DTYPE_F32 = 0,
  BONSAI_DTYPE_F16 = 1,
  BONSAI_DTYPE_BF16 = 2,
  BONSAI_DTYPE_Q8_0 = 3,       /* 32 weights, 34 bytes: f16 d, 32 int8; w = q d */
  BONSAI_DTYPE_Q4_0 = 4,       /* 32 weights, 18 bytes: f16 d, 16 bytes; w = (q - 8) d, weight j low nibble of byte j,
                                  weight 16 + j its high nibble */
  BONSAI_DTYPE_Q1_0_G128 = 5,  /* 128 weights, 18 bytes: f16 d, 16 bytes of bits, LSB first; bit 1 is +d, bit 0 is -d */
  BONSAI_DTYPE_TQ2_0_G128 = 6, /* 128 weights, 34 bytes: f16 d, 32 bytes of 2-bit codes, low bits first;
                                  w = (code - 1) d */
  BONSAI_DTYPE_Q2_0_G64 = 7,   /* 64 weights, 18 bytes: as TQ2_0_G128 with 64 weights a block */
  BONSAI_DTYPE_TQ1_0_G128 = 8, /* 128 weights, 28 bytes: 26 bytes of codes in base 3, f16 d; w = (code - 1) d. Bytes
                                  0..15 hold weights 0..79, 16..23 weights 80..119, five each; 24..25 the last 8, four
                                  each. Byte i of n has weights i, n + i, 2 n + i ... as digits, first the leading one, of
                                  b / 256: code = floor(3 b / 256), then b = 3 b mod 256 */
  BONSAI_DTYPE_TQ2_0 = 9,      /* 256 weights, 66 bytes: 64 bytes of 2-bit codes, f16 d; w = (code - 1) d. Byte j of each
                                  32 has weights j, 32 + j, 64 + j, 96 + j of its 128, low bits first */
  BONSAI_DTYPE_TQ1_0 = 10,     /* 256 weights, 54 bytes: as TQ1_0_G128 with 32, 16 and 4 bytes of codes */
  BONSAI_DTYPE_F8_E4M3 = 11,   /* 32 weights, 34 bytes: 32 FP8 numbers (OCP E4M3: bias 7, no infinity, NaN 0x7F and
                                  0xFF), f16 d; w = fp8 d */
  BONSAI_DTYPE_F8_E5M2 = 12,   /* 32 weights, 34 bytes: as F8_E4M3 (OCP E5M2: bias 15, infinity and NaN as IEEE) */
  BONSAI_DTYPE_Q4_1 = 13,      /* 32 weights, 20 bytes: f16 d, f16 m, 16 bytes as Q4_0; w = q d + m */
  BONSAI_DTYPE_Q5_0 = 14,      /* 32 weights, 22 bytes: f16 d, 4 bytes with the fifth bits of q, LSB first, 16 bytes with
                                  the low four as Q4_0; w = (q - 16) d */
  BONSAI_DTYPE_Q5_1 = 15,      /* 32 weights, 24 bytes: f16 d, f16 m, then as Q5_0; w = q d + m */
  /* ggml's super-blocks of 256. Sub-block k has 16 weights (Q4_K and Q5_K: 32), a scale s and, where named, a minimum m.
     "By runs of r" is how codes of b bits share bytes: of each 8 / b runs of r weights, the first run has the lowest
     bits of r bytes, the next run the next bits. */
  BONSAI_DTYPE_Q2_K = 16,      /* 84 bytes: 16 bytes s | m << 4, 64 bytes of 2-bit q by runs of 32, f16 d, f16 dmin;
                                  w = d s q - dmin m */
  BONSAI_DTYPE_Q3_K = 17,      /* 110 bytes: 32 bytes of the third bits of q by runs of 32, 64 bytes of the low two by
                                  runs of 32, s: 8 bytes of the low four bits by runs of 8, 4 bytes of the top two by runs
                                  of 4; f16 d; w = d (s - 32) (q - 4) */
  BONSAI_DTYPE_Q4_K = 18,      /* 144 bytes: f16 d, f16 dmin, 12 bytes of 6-bit s and m, 128 bytes of 4-bit q by runs of
                                  32; w = d s q - dmin m. Of the 12, for i < 4: byte i is s[i] | (s[4+i] >> 4) << 6, byte
                                  4 + i likewise m, byte 8 + i is (s[4+i] & 15) | (m[4+i] & 15) << 4 */
  BONSAI_DTYPE_Q5_K = 19,      /* 176 bytes: as Q4_K, with 32 bytes of the fifth bits of q by runs of 32 before the 128 */
  BONSAI_DTYPE_Q6_K = 20,      /* 210 bytes: 128 bytes of the low four bits of q by runs of 64, 64 bytes of the top two by
                                  runs of 32, 16 int8 s, f16 d; w = d s (q - 32) */
  BONSAI_DTYPE_Q8_K = 21,      /* 292 bytes: f32 d, 256 int8 q, 16 int16 sums of 16 q (no value depends on these);
                                  w = q d */
  /* From 0.10 on. Codes q stand for v(q): -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113. */
  BONSAI_DTYPE_IQ4_NL = 22,    /* 32 weights, 18 bytes: f16 d, 16 bytes as Q4_0; w = d v(q) */
  BONSAI_DTYPE_IQ4_XS = 23     /* 256 weights, 136 bytes: f16 d, 2 bytes with the top two of six bits of s[0..7], lowest
                                  first, 4 bytes with the low four, byte i of s[2i] | s[2i+1] << 4; for each 32 weights 16
                                  bytes of q as Q4_0; w = d (s - 32) v(q) */
};

/* ------------------------------------------------------------------------------------------------------------------ */
/* Devices                                                                                                              */

typedef struct bonsai_device bonsai_device;   /* made by device_open, ended by device_close */
typedef struct bonsai_weight bonsai_weight;   /* made by weight_upload, ended by weight_free */
typedef struct bonsai_session bonsai_session; /* made by session_create, ended by session_destroy */

typedef uint32_t bonsai_kv_dtype;
enum {
  BONSAI_KV_F16 = 0,
  BONSAI_KV_Q8_0 = 1, /* groups of 32 along head_dim within one token and head: f16 d, 32 int8, as BONSAI_DTYPE_Q8_0:
                         d is the largest magnitude of the group / 127, and each q the nearest to x / d, -127 to 127,
                         by d before it is rounded to F16 or behind. Of a group with a NaN d is NaN: what is wrong must
                         show */
  BONSAI_KV_F32 = 2
};

typedef uint32_t bonsai_features;
enum {
  BONSAI_FEATURE_ADJUST = 1u << 0,        /* outputs take adjustments, a mask and a temperature */
  BONSAI_FEATURE_TOKEN_CHAINING = 1u << 1, /* a token may be BONSAI_TOKEN_FROM_OUTPUT(j). The host makes use of it where
                                              device_status has 0 `threads`, or is NULL, which it takes for 0: else it
                                              would compete with them */
  BONSAI_FEATURE_DETERMINISTIC = 1u << 2,  /* a request's bytes depend neither on its company nor on its cutting into batches */
  BONSAI_FEATURE_BORROWS = 1u << 3         /* weight_upload may keep pointers under BONSAI_WEIGHT_BORROWED */
};

/* An option's key as the user writes it after `--backend-opt`, "cpu.threads" for one. The key "device" is the host's
 * own (which device is opened), never sent, and not to be listed. An option NAME.warm, with the backend's NAME, is set to
 * "on" by `bonsai backends --warm`: device_open then makes and keeps what later starts would wait for (kernels). */
typedef struct bonsai_option_info {
  uint32_t struct_size;
  const char *key;  /* not empty, without '=', not "device", and no other option of the device has it */
  const char *help; /* one line, default included */
} bonsai_option_info;

/* Filled by device_info; strings and arrays belong to the backend and live as long as it is loaded. */
typedef struct bonsai_device_info {
  uint32_t struct_size;
  bonsai_features features;
  const char *name;                         /* "AMD EPYC 7B13", "NVIDIA H200" */
  uint64_t memory_total_bytes;              /* 0: unknown */
  uint64_t memory_free_bytes;               /* 0: unknown */
  uint32_t n_options;                       /* at most 256 */
  uint32_t n_kv_dtypes;                     /* at most 16 */
  const bonsai_option_info *const *options; /* (n_options) */
  const bonsai_kv_dtype *kv_dtypes;         /* (n_kv_dtypes), in any order; at least one from level 1 on. The host asks
                                               for BONSAI_KV_F16, or for what the user names by --kv, and passes over a
                                               backend with sessions that does not list it */
  const uint32_t *block_sizes;              /* (n_block_sizes) tokens in a KV block, each 1 to 65,536; at least one from
                                               level 1 on. The host takes 32 if it is listed, else the first */
  uint32_t n_block_sizes;                   /* at most 64 */
  uint32_t max_k;                           /* largest top-k; at least 1,024 if sessions are offered */
} bonsai_device_info;

/* One of the user's options, in the user's order. A key may come more than once: the last one counts. The host sends
 * only keys that device_info lists; the others are for other backends. */
typedef struct bonsai_option {
  uint32_t struct_size;
  const char *key;
  const char *value;
} bonsai_option;

typedef struct bonsai_device_config {
  uint32_t struct_size;
  uint32_t n_options;
  const bonsai_option *const *options; /* (n_options), read during device_open */
  bonsai_log_fn log;                   /* NULL: no log. Callable until device_close returns */
  void *log_context;
} bonsai_device_config;

/* What an open device is and holds. Strings live until device_close. */
typedef struct bonsai_device_status {
  uint32_t struct_size;
  uint32_t threads;               /* threads that compute; 0 where the word means nothing */
  const char *kernel;             /* which kernels run: "avx512", "portable", "sm_90a" */
  uint64_t weight_bytes;          /* memory that weights occupy, without borrowed memory: the sum of their `bytes` */
  uint64_t borrowed_bytes;        /* host memory that weights keep pointers into */
  uint64_t session_bytes;         /* memory that sessions occupy */
  uint64_t memory_total_bytes;    /* 0: unknown */
  uint64_t memory_free_bytes;     /* 0: unknown */
} bonsai_device_status;

/* ------------------------------------------------------------------------------------------------------------------ */
/* Weights                                                                                                              */

/* What a matrix is for; dtype_support answers with these bits and weight_upload is told them. */
typedef uint32_t bonsai_weight_use;
enum {
  BONSAI_USE_MATRIX = 1u << 0,   /* y = W x. Asked of a weight that was not uploaded for it: BONSAI_INVALID_ARGUMENT */
  BONSAI_USE_EMBEDDING = 1u << 1 /* rows are looked up by token id, which only level 2 does; likewise */
};

typedef uint32_t bonsai_weight_flags;
enum {
  BONSAI_WEIGHT_BORROWED = 1u << 0 /* `data` of every part outlives the weight unchanged: pointers may be kept */
};

/* Rows of one dtype. Several parts stack, in order, into one weight: Q, K and V, or gate and up. */
typedef struct bonsai_weight_part {
  uint32_t struct_size;
  bonsai_dtype dtype;
  uint64_t rows;       /* at least 1 */
  const void *data;    /* (rows, columns) in dtype's blocks; no alignment is promised */
  uint64_t data_bytes; /* rows * columns / block weights * block bytes */
} bonsai_weight_part;

typedef struct bonsai_weight_desc {
  uint32_t struct_size;
  bonsai_weight_flags flags;
  bonsai_weight_use uses; /* at least one bit */
  uint32_t n_parts;       /* at least 1 */
  uint64_t columns;
  const bonsai_weight_part *const *parts; /* (n_parts) */
  const char *name;                       /* for messages; NULL allowed */
} bonsai_weight_desc;

/* Filled by weight_upload: what became of the caller's memory. */
typedef struct bonsai_weight_result {
  uint32_t struct_size;
  uint32_t borrowed; /* 1: the weight keeps pointers into at least one part; 0: the caller's memory is not needed any more */
  uint64_t bytes;    /* memory that the weight occupies beside borrowed memory */
} bonsai_weight_result;

typedef struct bonsai_gemv_args {
  uint32_t struct_size;
  uint32_t n;          /* vectors; any number >= 1 */
  const bonsai_weight *weight;
  uint64_t first_row;
  uint64_t rows;       /* at least 1; first_row + rows <= rows of the weight, all parts together */
  const float *x;      /* (n, columns), host memory */
  float *y;            /* (n, rows), host memory; does not overlap x. Undefined on failure */
} bonsai_gemv_args;

/* ------------------------------------------------------------------------------------------------------------------ */
/* Models and sessions                                                                                                  */

/* Some consecutive rows of a weight. */
typedef struct bonsai_weight_slice {
  uint32_t struct_size;
  uint32_t reserved; /* 0 */
  const bonsai_weight *weight;
  uint64_t first_row;
  uint64_t rows;
} bonsai_weight_slice;

typedef uint32_t bonsai_layer_kind;
enum { BONSAI_LAYER_DECODER = 0 /* attention, then a SwiGLU feed-forward network, each with a residual */ };

/* One decoder layer. Slices and vectors are read during session_create; the weights that slices name outlive the session.
 * For x (hidden) at position p:
 *   h = rms_norm(x, attn_norm);  q = Wq h + q_bias;  k = Wk h + k_bias;  v = Wv h + v_bias
 *   q = rope(rms_norm(q, q_norm), p) and k likewise, per head;  K and V are stored, rounded to the session's KV dtype
 *   head i reads kv head i / (heads / kv_heads):  a = softmax(softmax_scale * q K^T) V  over stored positions 0..p
 *   x += Wo a + o_bias;  h = rms_norm(x, ffn_norm);  x += Wdown (silu(Wgate h) * (Wup h))
 */
typedef struct bonsai_layer_spec {
  uint32_t struct_size;
  bonsai_layer_kind kind;
  const bonsai_weight_slice *q;      /* (heads * head_dim, hidden) */
  const bonsai_weight_slice *k;      /* (kv_heads * head_dim, hidden) */
  const bonsai_weight_slice *v;      /* (kv_heads * head_dim, hidden) */
  const bonsai_weight_slice *o;      /* (hidden, heads * head_dim) */
  const bonsai_weight_slice *gate;   /* (ffn, hidden) */
  const bonsai_weight_slice *up;     /* (ffn, hidden) */
  const bonsai_weight_slice *down;   /* (hidden, ffn) */
  const float *attn_norm;            /* (hidden) */
  const float *ffn_norm;             /* (hidden) */
  const float *q_norm;               /* (head_dim); NULL: no norm */
  const float *k_norm;               /* (head_dim); NULL: no norm */
  const float *q_bias;               /* (heads * head_dim); NULL: none */
  const float *k_bias;               /* (kv_heads * head_dim); NULL: none */
  const float *v_bias;               /* (kv_heads * head_dim); NULL: none */
  const float *o_bias;               /* (hidden); NULL: none */
} bonsai_layer_spec;

/* Bits a backend must understand to run the model right; none are defined so far. */
typedef uint32_t bonsai_model_features;

/* A model, or any contiguous run of its layers. Read during session_create. */
typedef struct bonsai_model_spec {
  uint32_t struct_size;
  bonsai_model_features features;
  uint32_t n_layers;            /* layers in this session, at least 1 */
  uint32_t hidden;
  uint32_t ffn;
  uint32_t n_heads;
  uint32_t n_kv_heads;          /* divides n_heads */
  uint32_t head_dim;            /* even */
  uint32_t vocab;               /* rows of embedding and head; 0 if the session has neither */
  float rms_eps;                /* rms_norm(x, w) = w * x / sqrt(mean(x^2) + rms_eps) */
  float softmax_scale;          /* 1 / sqrt(head_dim) */
  uint32_t rope_dim;            /* leading elements of a head that are rotated, even; pairs are (i, i + rope_dim / 2) */
  uint32_t rope_positions;      /* rows of the tables; every position is below it */
  uint32_t reserved;            /* 0 */
  const float *rope_cos;        /* (rope_positions, rope_dim / 2), scaling included */
  const float *rope_sin;        /* (rope_positions, rope_dim / 2); a pair (a, b) becomes (a cos - b sin, b cos + a sin) */
  const bonsai_layer_spec *const *layers; /* (n_layers) */
  const bonsai_weight_slice *embedding;   /* (vocab, hidden); NULL: the batch brings hidden states */
  const float *output_norm;               /* (hidden); NULL: no head in this session */
  const bonsai_weight_slice *head;        /* (vocab, hidden); NULL: no head in this session */
} bonsai_model_spec;

/* Everything that a session allocates is allocated by session_create, in these sizes. */
typedef struct bonsai_session_config {
  uint32_t struct_size;
  bonsai_kv_dtype kv_dtype;
  uint32_t block_size;              /* tokens in a KV block: one of the device's block_sizes */
  uint32_t n_blocks;                /* blocks in the pool; this and the next three are at least 1 */
  uint32_t max_tokens;              /* most tokens in a batch */
  uint32_t max_sequences;           /* most rows of a batch's block table */
  uint32_t max_blocks_per_sequence; /* most columns of a batch's block table */
  uint32_t max_outputs;             /* most outputs of a batch: at least 1; without a head it means nothing */
  uint32_t max_k;                   /* largest k of an output: at most the device's max_k, and at most vocab; 0: there
                                       will be no TOP_K; without a head it means nothing */
  uint32_t reserved;                /* 0 */
} bonsai_session_config;

typedef struct bonsai_session_memory {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t device_bytes; /* KV pool and scratch on the device */
  uint64_t host_bytes;   /* the same in host memory; equal to device_bytes where the device is the host */
} bonsai_session_memory;

/* ------------------------------------------------------------------------------------------------------------------ */
/* Batches and outputs                                                                                                  */

/* As a token: the token that output j of the previous submit on this session selects (kind ARGMAX, or TOP_K's first).
 * Where that has no such output it is BONSAI_INVALID_ARGUMENT, or BONSAI_UNSUPPORTED without the feature. A submit that was
 * refused is not the previous one, nor does a layer_encode or an lm_head end that. */
#define BONSAI_TOKEN_FROM_OUTPUT(j) (-1 - (int32_t)(j))

/* Tokens of any mix of sequences: one call serves prefill, decode and verification.
 * Every layer stores K and V of all the batch's tokens before its attention, so that tokens of one sequence see each
 * other. Token i attends to positions 0..positions[i] of its sequence. Writing a position again replaces it (rollback).
 * Position p of a sequence lives in block block_table[sequence][p / block_size], at slot p % block_size.
 * No two tokens of a batch share sequence and position; no two rows of the table share a block that the batch writes, and no
 * row has one twice (backends need not look). Blocks that it does not write may be in any number of rows: sequences that begin
 * alike share what this fills. What lies in blocks behind a sequence's positions counts for nothing, NaN included. */
typedef struct bonsai_batch {
  uint32_t struct_size;
  uint32_t n_tokens;            /* 1..max_tokens */
  const int32_t *tokens;        /* (n_tokens) ids or BONSAI_TOKEN_FROM_OUTPUT(j); NULL if `hidden` is given */
  const float *hidden;          /* (n_tokens, hidden) input states where the session has no embedding; else NULL */
  const uint32_t *positions;    /* (n_tokens) */
  const uint32_t *sequences;    /* (n_tokens) rows of the block table */
  const uint32_t *block_table;  /* (n_sequences, blocks_per_sequence); columns past a sequence's length are not read */
  uint32_t n_sequences;
  uint32_t blocks_per_sequence;
} bonsai_batch;

/* Where logits are NaN, it is open which ids TOP_K and ARGMAX select, but they lie in the vocabulary, and TOP_K has none
 * twice. The CPU and the CUDA backend take NaN for less than -infinity, the lower id first. */
typedef uint32_t bonsai_output_kind;
enum {
  BONSAI_OUTPUT_LOGITS = 0, /* all logits */
  BONSAI_OUTPUT_TOP_K = 1,  /* the k largest in falling order (ties: lower id first), log-sum-exp, asked-for ids */
  BONSAI_OUTPUT_ARGMAX = 2, /* the largest (ties: lowest id) */
  BONSAI_OUTPUT_HIDDEN = 3  /* the hidden state after the output norm */
};

/* One row that the caller wants. Adjustments need BONSAI_FEATURE_ADJUST and are applied to the logits in this order before
 * anything is selected or returned:
 *   1. for each (id, add, repeat): l = (l > 0 ? l / repeat : l * repeat) + add      2. mask: bit 0 means -infinity
 *   3. l /= temperature (0 and 1: unchanged)
 * Result pointers are written until forward_wait (or lm_head) returns, and must live that long; those that a kind does not
 * name are ignored and may be NULL. Input arrays are read during the submitting call only. */
typedef struct bonsai_output {
  uint32_t struct_size;
  bonsai_output_kind kind;
  uint32_t token;               /* index into the batch */
  uint32_t k;                   /* TOP_K: 1..max_k and at most vocab */
  uint32_t n_ids;               /* TOP_K: ids whose logits are asked for: 0 to vocab of them; one may come twice */
  uint32_t n_adjustments;
  const int32_t *ids;           /* (n_ids) */
  const int32_t *adjust_ids;    /* (n_adjustments), each id once; the host's rise, which a backend may profit from */
  const float *adjust_add;      /* (n_adjustments), finite or -infinity */
  const float *adjust_repeat;   /* (n_adjustments), finite and > 0; 1 changes nothing */
  const uint32_t *mask;         /* (ceil(vocab / 32)) bit i % 32 of word i / 32; NULL: everything is allowed */
  float temperature;            /* finite, at least 0 */
  uint32_t reserved;            /* 0 */
  float *logits;                /* LOGITS: (vocab) */
  int32_t *top_ids;             /* TOP_K: (k); ARGMAX: (1) */
  float *top_logits;            /* TOP_K: (k); ARGMAX: (1) */
  float *id_logits;             /* TOP_K: (n_ids) */
  float *log_sum_exp;           /* TOP_K: (1), over the whole vocabulary, after adjustments; NULL: not wanted */
  float *hidden;                /* HIDDEN: (hidden) */
} bonsai_output;

/* ------------------------------------------------------------------------------------------------------------------ */
/* Profile                                                                                                              */

/* One kind of work, and what it has cost. Phases do not overlap: calls take at least as long as their phases in sum. */
typedef struct bonsai_profile_phase {
  uint32_t struct_size;
  uint32_t reserved;  /* 0 */
  const char *name;   /* where they apply: "embedding", "norm", "qkv", "rope" (storing K and V included), "attention",
                         "o", "gate_up", "swiglu", "down", "residual", "head", "selection"
                         (or part of "head"), "gemv" */
  double seconds;
  uint64_t calls;     /* times that it ran */
  uint64_t bytes;     /* of weights, keys and values that it had to read at least; 0: not counted */
} bonsai_profile_phase;

typedef uint32_t bonsai_profile_action;
enum {
  BONSAI_PROFILE_READ = 0,  /* changes nothing */
  BONSAI_PROFILE_START = 1, /* forgets what was measured, and measures from here on */
  BONSAI_PROFILE_STOP = 2   /* measures no more; what was measured stays */
};

/* Filled by profile. Phases and names belong to the device and live until its next call of profile, or device_close. */
typedef struct bonsai_profile {
  uint32_t struct_size;
  uint32_t n_phases;                         /* at most 256 */
  const bonsai_profile_phase *const *phases; /* (n_phases) those that ran, in the order of a forward pass */
} bonsai_profile;

/* ------------------------------------------------------------------------------------------------------------------ */
/* The table                                                                                                            */

/* Returned by bonsai_backend_entry; constant, lives as long as the backend is loaded. */
typedef struct bonsai_backend_api {
  uint32_t struct_size;
  uint32_t abi_major;      /* BONSAI_ABI_MAJOR of the header it was built with */
  uint32_t abi_minor;      /* BONSAI_ABI_MINOR likewise */
  int32_t priority;        /* `--backend auto` tries the highest first; the CPU backend has 0 and comes after all but
                              the negative ones */
  const char *name;        /* "cuda": 1 to 64 letters, digits, '-' and '_'; not "auto", and "cpu" only in
                              libbonsai_cpu.so */
  const char *version;     /* the backend's own, "0.1.0" */
  const char *description; /* one line */

  /* -------- Level 0, required -------- */

  /* Writes how many devices can be opened, at most 1,024. With none, writes 0, returns BONSAI_OK and says why in
   * `error->message` (no driver, no permission); `error` may be NULL. [any] */
  bonsai_status (*device_count)(uint32_t *count, bonsai_error *error);

  /* Describes device `index` without opening it. The caller sets info->struct_size. [any] */
  bonsai_status (*device_info)(uint32_t index, bonsai_device_info *info, bonsai_error *error);

  /* Opens device `index`. An unknown option key (the host sends none) is BONSAI_UNSUPPORTED, a bad value
   * BONSAI_INVALID_ARGUMENT; both messages name the key. After a bad value the host tries no other backend: that would
   * not heed the option. A device may be opened several times; each is independent. Ended by device_close. [any] */
  bonsai_status (*device_open)(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                               bonsai_error *error);

  /* Ends a device. Its sessions and weights have been ended before. NULL is allowed. [device] */
  void (*device_close)(bonsai_device *device);

  /* Writes the uses (bonsai_weight_use) that the device serves for `dtype`: 0 with BONSAI_OK if none, also for a dtype
   * that the backend does not know (BONSAI_UNSUPPORTED means the same). A matrix in a dtype that is not served is
   * transcoded into one that is, if that is lossless (ternary packings into each other, F16 and BF16 into F32). If not,
   * even for one matrix only, the host passes the whole backend over for this model. An embedding that is not served
   * stays with the host, as every embedding does below level 2. [device] */
  bonsai_status (*dtype_support)(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses, bonsai_error *error);

  /* Brings a weight, stacked of parts, to the device. A size that the device has no kernels for is BONSAI_UNSUPPORTED,
   * also in a dtype that it serves. `result` may be NULL. Ended by weight_free. [device] */
  bonsai_status (*weight_upload)(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
                                 bonsai_weight_result *result, bonsai_error *error);

  /* Frees a weight. No session that uses it is left. NULL is allowed. [device] */
  void (*weight_free)(bonsai_device *device, bonsai_weight *weight);

  /* y[i] = W x[i] for n vectors; 0 vectors or rows are never asked for. Blocks until y is written. [device] */
  bonsai_status (*gemv)(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error);

  /* -------- Level 1: all five or none -------- */

  /* Writes what session_create would allocate, and refuses the shapes and sizes that it would. The `weight` of every slice in
   * `model` may be NULL here. [device] */
  bonsai_status (*session_memory)(bonsai_device *device, const bonsai_model_spec *model,
                                  const bonsai_session_config *config, bonsai_session_memory *memory,
                                  bonsai_error *error);

  /* Makes a session: scratch and the KV pool for a model on a device. A model that the backend cannot run right (an unknown
   * feature bit or layer kind, a shape that it has no kernels for) is BONSAI_UNSUPPORTED: the host then goes to the next
   * backend or to the CPU, not to level 0 of this one. A shape that no model has (an odd rope_dim, n_kv_heads that do not
   * divide n_heads) may be BONSAI_INVALID_ARGUMENT as well. Ended by session_destroy. [device] */
  bonsai_status (*session_create)(bonsai_device *device, const bonsai_model_spec *model,
                                  const bonsai_session_config *config, bonsai_session **session, bonsai_error *error);

  /* Ends a session. Submits still in flight are dropped; their results stay unwritten or partly written. NULL is allowed.
   * [device] */
  void (*session_destroy)(bonsai_session *session);

  /* Runs layer `layer` (counted within the session) over the batch. `in` (n_tokens, hidden) is the layer's input; NULL: the
   * state that the previous layer_encode left, and the batch is that one's again; another n_tokens than there are states is
   * BONSAI_INVALID_ARGUMENT. `out` (n_tokens, hidden), or NULL, receives the layer's output, and does not overlap `in`. Either
   * way that is the state from here on, until a submit, or an lm_head with an `in`, leaves none. The batch's tokens and hidden
   * are not read, and may both be NULL, also where the session has the embedding. Runs after what was submitted. [device] */
  bonsai_status (*layer_encode)(bonsai_session *session, uint32_t layer, const bonsai_batch *batch, const float *in,
                                float *out, bonsai_error *error);

  /* Output norm, head and selection. `in` (n_rows, hidden), output j reads row outputs[j]->token; NULL: the state that the
   * previous layer_encode left, and that stays, whose rows are its batch's tokens (n_rows then equals its n_tokens). With `in`,
   * n_rows is at least 1, and may exceed max_tokens. n_outputs is at most max_outputs, and in a session without a head at most
   * 0, which is allowed, and computes nothing. [device] */
  bonsai_status (*lm_head)(bonsai_session *session, const float *in, uint32_t n_rows,
                           const bonsai_output *const *outputs, uint32_t n_outputs, bonsai_error *error);

  /* -------- Level 2: both or none -------- */

  /* Starts all layers and the head over a batch, and writes a ticket. n_outputs is as lm_head's (0 fills the KV cache). At
   * most two submits are in flight on a session, and they run in order; a third is BONSAI_INVALID_ARGUMENT. Arguments are
   * checked here. [device] */
  bonsai_status (*forward_submit)(bonsai_session *session, const bonsai_batch *batch,
                                  const bonsai_output *const *outputs, uint32_t n_outputs, uint64_t *ticket,
                                  bonsai_error *error);

  /* Blocks until the ticket's results are written, and returns how its run ended. Each ticket is waited for once, in the
   * order of submission; any other is BONSAI_INVALID_ARGUMENT, and changes nothing. Where a run fails, what is in flight behind
   * it is waited for all the same: whatever its status, its results mean nothing, and the KV cache at its positions is
   * undefined until written again. [device] */
  bonsai_status (*forward_wait)(bonsai_session *session, uint64_t ticket, bonsai_error *error);

  /* -------- Any level; NULL allowed -------- */

  /* Copies whole KV blocks, all layers: sources[i] to destinations[i], in order. n 0 is allowed, and the arrays may then be
   * NULL. Runs after what was submitted before. [device] */
  bonsai_status (*kv_copy)(bonsai_session *session, const uint32_t *sources, const uint32_t *destinations, uint32_t n,
                           bonsai_error *error);

  /* Writes positions [0, n_tokens) of a sequence, whose blocks are listed in order, in the canonical layout:
   *   for each layer of the session: K (n_tokens, n_kv_heads, head_dim), then V likewise,
   * elements in the session's KV dtype (F32 and F16 little-endian, Q8_0 as 34-byte blocks along head_dim). `bytes` is
   * exactly n_layers * 2 * n_tokens * n_kv_heads * bytes of a head. There may be more blocks than the tokens fill, or none
   * of both: the pointers may then be NULL. Waits for what was submitted before. [device] */
  bonsai_status (*kv_export)(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                             void *data, uint64_t bytes, bonsai_error *error);

  /* The inverse of kv_export. [device] */
  bonsai_status (*kv_import)(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                             const void *data, uint64_t bytes, bonsai_error *error);

  /* Says what the open device is and how much memory is in use. The caller sets status->struct_size. [device] */
  bonsai_status (*device_status)(bonsai_device *device, bonsai_device_status *status, bonsai_error *error);

  /* Blocks until everything that was submitted on the device has run, and returns a sticky error if there is one. [device] */
  bonsai_status (*synchronize)(bonsai_device *device, bonsai_error *error);

  /* Measures where the device's calls spend their time. Nothing is measured before BONSAI_PROFILE_START. `profile`, whose
   * struct_size the caller sets, receives what was measured up to this call and before the action; NULL: not wanted. Waits
   * for what was submitted before. [device] */
  bonsai_status (*profile)(bonsai_device *device, bonsai_profile_action action, bonsai_profile *profile,
                           bonsai_error *error);
} bonsai_backend_api;

/* The one exported function. `host_major` and `host_minor` are the host's ABI version. Returns NULL when the backend cannot
 * serve that major version, whichever other it is; a backend built with another minor version returns its table all the same,
 * and each side uses what both know: the table's struct_size says how far it reaches. [any] */
typedef const bonsai_backend_api *(*bonsai_backend_entry_fn)(uint32_t host_major, uint32_t host_minor);
BONSAI_BACKEND_EXPORT const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t host_minor);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* BONSAI_BACKEND_H */
