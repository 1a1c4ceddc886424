#include "host/engine/session_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include "core/base/atomic_file.h"
#include "core/quant/format.h"

static_assert(std::endian::native == std::endian::little, "session files are written as memory holds them");

namespace bonsai::host {
namespace {

constexpr char kMagic[8] = {'B', 'O', 'N', 'S', 'A', 'I', 'S', 'E'};
constexpr uint32_t kVersion = 1, kVersionWithNote = 2;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t kv_dtype;
  uint64_t model;
  uint32_t layers, kv_heads, head_dim;
  uint32_t n_tokens, n_cached;
  uint32_t n_note;
};
static_assert(sizeof(Header) == 48);

// FNV-1a of 64 bits over 8 bytes at a time, the last ones filled up with zeros: not proof against intent, but against
// accidents.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      uint64_t word = 0;
      const size_t n = std::min(bytes.size(), sizeof word);
      std::memcpy(&word, bytes.data(), n);
      hash_ = (hash_ ^ word) * 0x100000001B3u;
      hash_ ^= hash_ >> 32;  // FNV alone never carries an upper bit down
      bytes = bytes.subspan(n);
    }
  }
  template <class T>
  void add_value(const T &value) {
    add(std::as_bytes(std::span(&value, 1)));
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;
};

// The parts of a file are summed up one by one, so that each may be filled up by itself.
uint64_t checksum_of(const Header &header, const SessionFile &file) {
  Checksum checksum;
  checksum.add_value(header);
  checksum.add(std::as_bytes(std::span(file.tokens)));
  checksum.add(file.cache);
  checksum.add(std::as_bytes(std::span(file.note)));
  return checksum.value();
}

// Bytes of one head's key or value, or 0 where the type does not exist or does not fit.
uint64_t head_bytes(bonsai_kv_dtype dtype, uint32_t head_dim) {
  switch (dtype) {
    case BONSAI_KV_F32:
      return uint64_t{head_dim} * 4;
    case BONSAI_KV_F16:
      return uint64_t{head_dim} * 2;
    case BONSAI_KV_Q8_0:
      return head_dim % 32 == 0 ? uint64_t{head_dim} / 32 * 34 : 0;
    default:
      return 0;
  }
}

Result<void> check_header(const Header &header) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return fail("not a session file");
  if (header.version != kVersion && header.version != kVersionWithNote)
    return fail("session file of version {}, expected version {} or {}", header.version, kVersion, kVersionWithNote);
  if (header.version == kVersion && header.n_note != 0)
    return fail("session file with a reserved field of {}, expected 0", header.n_note);
  if (header.n_cached > header.n_tokens)
    return fail("session file with keys of {} tokens, expected at most its {}", header.n_cached, header.n_tokens);
  // Real models stay far below; products of these fit 64 bits.
  constexpr uint32_t kMost = 1u << 14;
  for (const uint32_t extent : {header.layers, header.kv_heads, header.head_dim}) {
    if (extent == 0 || extent > kMost) return fail("session file with a shape of {}, expected 1 to {}", extent, kMost);
  }
  if (head_bytes(header.kv_dtype, header.head_dim) == 0)
    return fail("session file with a KV type {} for a head_dim of {}, which does not exist", header.kv_dtype,
                header.head_dim);
  return {};
}

// Some bytes from the start, the middle and the end.
void add_sample(Checksum &checksum, const gguf::Tensor *tensor) {
  constexpr size_t kSample = 512;
  if (!tensor) return;
  const std::span<const std::byte> data = tensor->data;
  checksum.add_value(static_cast<uint32_t>(tensor->format));
  checksum.add_value(uint64_t{data.size()});
  const size_t n = std::min(data.size(), kSample);
  for (const size_t from : {size_t{0}, (data.size() - n) / 2, data.size() - n}) checksum.add(data.subspan(from, n));
}

}  // namespace

uint64_t session_cache_bytes(const SessionOrigin &origin, uint32_t n_tokens) {
  return head_bytes(origin.kv_dtype, origin.head_dim) * origin.kv_heads * origin.layers * 2 * n_tokens;
}

Result<SessionFile> parse_session_file(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header + sizeof(uint64_t))
    return fail("not a session file: {} bytes, expected at least {}", bytes.size(), sizeof header + sizeof(uint64_t));
  std::memcpy(&header, bytes.data(), sizeof header);
  auto checked = check_header(header);
  if (!checked) return tl::unexpected(checked.error());
  SessionFile file;
  file.origin = {header.model, header.kv_dtype, header.layers, header.kv_heads, header.head_dim};
  const uint64_t fixed_bytes = uint64_t{header.n_tokens} * sizeof(int32_t) + header.n_note;
  const uint64_t one_token = session_cache_bytes(file.origin, 1),
                 rest = bytes.size() - sizeof header - sizeof(uint64_t);
  // By division first: 2^32 tokens of the largest shape do not fit 64 bits.
  if (fixed_bytes > rest || header.n_cached > (rest - fixed_bytes) / one_token ||
      fixed_bytes + header.n_cached * one_token != rest)
    return fail("session file of {} bytes does not hold its {} tokens and the keys and values of {}", bytes.size(),
                header.n_tokens, header.n_cached);
  file.n_cached = header.n_cached;
  file.tokens.resize(header.n_tokens);
  bytes = bytes.subspan(sizeof header);
  const size_t token_bytes = file.tokens.size() * sizeof(int32_t);
  if (token_bytes > 0) std::memcpy(file.tokens.data(), bytes.data(), token_bytes);
  file.cache = bytes.subspan(token_bytes, rest - fixed_bytes);
  file.note = {reinterpret_cast<const char *>(bytes.data() + rest - header.n_note), header.n_note};
  uint64_t stored;
  std::memcpy(&stored, bytes.data() + rest, sizeof stored);
  const uint64_t found = checksum_of(header, file);
  if (found != stored) return fail("session file is damaged: checksum {:016x}, expected {:016x}", found, stored);
  return file;
}

Result<void> write_session_file(const std::string &path, const SessionFile &file) {
  if (file.note.size() > std::numeric_limits<uint32_t>::max())
    return fail("{}: a note of {} bytes, expected less than 4 GiB", path, file.note.size());
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = file.note.empty() ? kVersion : kVersionWithNote;
  header.kv_dtype = file.origin.kv_dtype;
  header.model = file.origin.model;
  header.layers = file.origin.layers;
  header.kv_heads = file.origin.kv_heads;
  header.head_dim = file.origin.head_dim;
  header.n_tokens = static_cast<uint32_t>(file.tokens.size());
  header.n_cached = file.n_cached;
  header.n_note = static_cast<uint32_t>(file.note.size());
  const uint64_t checksum = checksum_of(header, file);

  auto out = AtomicFile::create(path, AtomicFile::Access::kOwnerOnly);
  if (!out) return tl::unexpected(out.error());
  const std::span<const std::byte> parts[] = {
      std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(file.tokens)), file.cache,
      std::as_bytes(std::span(file.note)), std::as_bytes(std::span(&checksum, 1))};
  for (const auto part : parts)
    if (auto written = out->write(part); !written) return written;
  return out->commit();
}

Result<void> check_session_replaceable(const std::string &path) {
  if (auto checked = check_replaceable(path); !checked) return checked;
  std::error_code ignored;  // what cannot be looked at cannot be opened either
  if (!std::filesystem::exists(path, ignored) && !ignored) return {};
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("{}: cannot be read, expected a new file or one that holds a session", path);
  char magic[sizeof kMagic] = {};
  file.read(magic, sizeof magic);
  if (file.gcount() == 0 || std::memcmp(magic, kMagic, sizeof kMagic) == 0) return {};
  return fail("{}: holds something else than a session, expected another file, or an empty one", path);
}

uint64_t model_fingerprint(const model::Model &model) {
  const model::Config &config = model.config;
  Checksum checksum;
  for (const uint32_t extent :
       {config.layers, config.hidden, config.ffn, config.heads, config.kv_heads, config.head_dim, config.vocab})
    checksum.add_value(extent);
  checksum.add_value(config.rms_eps);
  const std::vector<double> rope = model::rope_frequencies(config);
  checksum.add(std::as_bytes(std::span(rope)));
  // Keys are multiplied with it. Where it is 1, as nearly always, older sessions stay valid.
  if (config.rope_scaling.attention_factor != 1) checksum.add_value(config.rope_scaling.attention_factor);
  add_sample(checksum, model.token_embd);
  add_sample(checksum, model.head);
  checksum.add(std::as_bytes(std::span(model.output_norm)));
  for (const model::LayerWeights &layer : model.layers) {
    for (const auto *norm : {&layer.attn_norm, &layer.ffn_norm, &layer.q_norm, &layer.k_norm})
      checksum.add(std::as_bytes(std::span(*norm)));
    for (const gguf::Tensor *matrix :
         {layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_output, layer.ffn_gate, layer.ffn_up, layer.ffn_down})
      add_sample(checksum, matrix);
  }
  return checksum.value();
}

}  // namespace bonsai::host
