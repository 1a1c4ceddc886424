/*
 * The smallest useful Bonsai backend: one device, one thread, level 0. Copy it, and put your kernels in its place.
 *
 * It keeps what the ABI asks of every backend: a struct's size is checked before a field is read, a failure is a status
 * and a line of text, nothing is printed, aborts or is global. The host makes whole models of these eight functions.
 */
#include <bonsai/backend.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fills `error`, which may be NULL, and returns `code`. */
static bonsai_status failure(bonsai_error *error, bonsai_status code, const char *format, ...) {
  if (error && BONSAI_HAS_FIELD(error, bonsai_error, message)) {
    va_list arguments;
    va_start(arguments, format);
    error->code = code;
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
  }
  return code;
}

static bonsai_status invalid(bonsai_error *error, const char *what) {
  return failure(error, BONSAI_INVALID_ARGUMENT, "%s", what);
}

/* ---- Formats: how one row of each dtype is multiplied ---- */

static float half_to_float(const uint8_t *bytes) {
  const int exponent = bytes[1] >> 2 & 31, mantissa = (bytes[1] & 3) << 8 | bytes[0];
  float magnitude = ldexpf((float)(exponent ? 1024 + mantissa : mantissa), exponent ? exponent - 25 : -24);
  if (exponent == 31) magnitude = mantissa ? NAN : INFINITY;
  return bytes[1] >> 7 ? -magnitude : magnitude;
}

static float dot_f32(const uint8_t *row, const float *x, uint64_t columns) {
  double sum = 0;
  for (uint64_t i = 0; i < columns; ++i) {
    float w;
    memcpy(&w, row + i * sizeof w, sizeof w); /* no alignment is promised */
    sum += (double)w * x[i];
  }
  return (float)sum;
}

/* Q1_0_G128: a block is an f16 scale d and 128 sign bits; it adds d times the sum of x[i] (bit 1) and -x[i] (bit 0).
 * Eight partial sums fit a vector register: the compiler need not reorder an addition to use one. */
static float dot_q1_0(const uint8_t *row, const float *x, uint64_t columns) {
  float sum = 0;
  for (uint64_t block = 0; block < columns / 128; ++block, row += 18, x += 128) {
    float lanes[8] = {0}, block_sum = 0;
    for (int byte = 0; byte < 16; ++byte) {
      for (int bit = 0; bit < 8; ++bit) lanes[bit] += (float)((row[2 + byte] >> bit & 1) * 2 - 1) * x[byte * 8 + bit];
    }
    for (int lane = 0; lane < 8; ++lane) block_sum += lanes[lane];
    sum += half_to_float(row) * block_sum;
  }
  return sum;
}

static const struct format {
  bonsai_dtype dtype;
  uint32_t block_weights, block_bytes;
  float (*dot)(const uint8_t *row, const float *x, uint64_t columns);
} formats[] = {{BONSAI_DTYPE_F32, 1, 4, dot_f32}, {BONSAI_DTYPE_Q1_0_G128, 128, 18, dot_q1_0}};

static const struct format *find_format(bonsai_dtype dtype) {
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; ++i)
    if (formats[i].dtype == dtype) return &formats[i];
  return NULL;
}

/* ---- Devices ---- */

struct bonsai_device {
  char nothing; /* yours holds a context, streams, the log callback */
};

static bonsai_status device_count(uint32_t *count, bonsai_error *error) {
  if (!count) return invalid(error, "count is NULL");
  return *count = 1, BONSAI_OK; /* with no device: 0 here, the reason in `error`, and BONSAI_OK */
}

static bonsai_status device_info(uint32_t index, bonsai_device_info *info, bonsai_error *error) {
  if (index != 0 || !BONSAI_REACHES(info, bonsai_device_info, max_k))
    return invalid(error, "expected device 0 and a complete info");
  const uint32_t size = info->struct_size;
  memset(info, 0, size < sizeof *info ? size : sizeof *info);
  info->struct_size = size;
  info->name = "template, one thread";
  return BONSAI_OK;
}

static bonsai_status device_open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                                 bonsai_error *error) {
  if (index != 0 || !device || !BONSAI_REACHES(config, bonsai_device_config, log_context))
    return invalid(error, "expected device 0 and a config");
  const bonsai_option *option = config->n_options && config->options ? config->options[0] : NULL;
  if (config->n_options && (!BONSAI_REACHES(option, bonsai_option, value) || !option->key))
    return invalid(error, "a NULL option");
  if (option) return failure(error, BONSAI_UNSUPPORTED, "unknown option '%s'", option->key);
  *device = calloc(1, sizeof **device);
  return *device ? BONSAI_OK : failure(error, BONSAI_OUT_OF_MEMORY, "host memory for a device");
}

static void device_close(bonsai_device *device) { free(device); }

static bonsai_status dtype_support(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses,
                                   bonsai_error *error) {
  if (!device || !uses) return invalid(error, "device or uses is NULL");
  return *uses = find_format(dtype) ? BONSAI_USE_MATRIX : 0, BONSAI_OK;
}

/* ---- Weights: kept as they come; a faster backend reorders them here ---- */

struct bonsai_weight {
  uint64_t columns, rows;
  uint32_t n_parts;
  struct part {
    const struct format *format;
    uint64_t rows, row_bytes;
    uint8_t *data; /* (rows, row_bytes) */
  } parts[];       /* (n_parts), stacked by rows */
};

static void weight_free(bonsai_device *device, bonsai_weight *weight) {
  (void)device;
  for (uint32_t i = 0; weight && i < weight->n_parts; ++i) free(weight->parts[i].data);
  free(weight);
}

static bonsai_status copy_part(struct part *to, const bonsai_weight_part *from, uint64_t columns, bonsai_error *error) {
  if (!BONSAI_REACHES(from, bonsai_weight_part, data_bytes) || !from->data || !from->rows)
    return invalid(error, "a part is NULL, short or empty");
  const struct format *format = find_format(from->dtype);
  if (!format) return failure(error, BONSAI_UNSUPPORTED, "dtype %u: expected F32 or Q1_0_G128", from->dtype);
  const uint64_t blocks = columns / format->block_weights, row_bytes = blocks * format->block_bytes;
  if (columns % format->block_weights || row_bytes / format->block_bytes != blocks) /* or their product overflows */
    return invalid(error, "columns are not whole blocks, or more than there can be");
  if (from->data_bytes % row_bytes || from->data_bytes / row_bytes != from->rows)
    return invalid(error, "data_bytes are not rows of whole blocks");
  *to = (struct part){format, from->rows, row_bytes, malloc(from->data_bytes)};
  if (!to->data) return failure(error, BONSAI_OUT_OF_MEMORY, "host memory: %.0f bytes", (double)from->data_bytes);
  memcpy(to->data, from->data, from->data_bytes);
  return BONSAI_OK;
}

static bonsai_status weight_upload(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
                                   bonsai_weight_result *result, bonsai_error *error) {
  if (!device || !weight || !BONSAI_REACHES(desc, bonsai_weight_desc, name) || !desc->parts)
    return invalid(error, "an argument is NULL");
  if (!desc->uses || !desc->n_parts || !desc->columns) return invalid(error, "a weight without uses, parts or columns");
  if (desc->uses != BONSAI_USE_MATRIX || desc->flags > BONSAI_WEIGHT_BORROWED)
    return failure(error, BONSAI_UNSUPPORTED, "uses %u, flags %u", desc->uses, desc->flags);
  bonsai_weight *made = calloc(1, sizeof *made + desc->n_parts * sizeof made->parts[0]);
  if (!made) return failure(error, BONSAI_OUT_OF_MEMORY, "host memory: a weight of %u parts", desc->n_parts);
  uint64_t bytes = sizeof *made;
  made->columns = desc->columns;
  for (uint32_t i = 0; i < desc->n_parts; ++i, ++made->n_parts) {
    const bonsai_status status = copy_part(&made->parts[i], desc->parts[i], desc->columns, error);
    if (status != BONSAI_OK) return weight_free(device, made), status;
    made->rows += made->parts[i].rows;
    bytes += desc->parts[i]->data_bytes;
  }
  if (result && BONSAI_HAS_FIELD(result, bonsai_weight_result, bytes)) result->borrowed = 0, result->bytes = bytes;
  return *weight = made, BONSAI_OK;
}

/* ---- y[i] = W x[i]: what a backend exists for ---- */

static bonsai_status gemv(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error) {
  if (!device || !BONSAI_REACHES(args, bonsai_gemv_args, y) || !args->weight || !args->x || !args->y || !args->n ||
      !args->rows)
    return invalid(error, "expected a device, a weight, x, y and at least one vector and row");
  const bonsai_weight *w = args->weight;
  if (args->first_row > w->rows || args->rows > w->rows - args->first_row)
    return invalid(error, "first_row and rows reach beyond the weight's rows");
  const struct part *part = w->parts;
  uint64_t part_row = args->first_row; /* the wanted row, counted within its part */
  for (uint64_t row = 0; row < args->rows; ++row, ++part_row) {
    for (; part_row >= part->rows; ++part) part_row -= part->rows;
    for (uint32_t i = 0; i < args->n; ++i) {
      args->y[i * args->rows + row] =
          part->format->dot(part->data + part_row * part->row_bytes, args->x + i * w->columns, w->columns);
    }
  }
  return BONSAI_OK;
}

/* ---- The table, and the one symbol that is exported ---- */

/* What is not named is NULL: not offered. With a negative priority, `auto` takes the CPU backend before this. */
/* clang-format off */
static const bonsai_backend_api api = {
    .struct_size = sizeof(bonsai_backend_api), .abi_major = BONSAI_ABI_MAJOR, .abi_minor = BONSAI_ABI_MINOR,
    .priority = -100, .name = "template", .version = "0.1.0", .description = "the smallest backend, to copy from",
    .device_count = device_count, .device_info = device_info, .device_open = device_open, .device_close = device_close,
    .dtype_support = dtype_support, .weight_upload = weight_upload, .weight_free = weight_free, .gemv = gemv};
/* clang-format on */

const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t host_minor) {
  (void)host_minor; /* the host reads as much of the table as both sides know */
  return host_major == BONSAI_ABI_MAJOR ? &api : NULL;
}
