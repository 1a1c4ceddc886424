// A session on disk: its tokens, the keys and values that were computed for them, and what whoever saved it has to say.
//
// Little-endian, without gaps:
//   char magic[8] = "BONSAISE"; uint32 version = 1, or 2 with a note; uint32 KV type (bonsai_kv_dtype)
//   uint64 fingerprint of the model; uint32 layers, kv_heads, head_dim
//   uint32 n_tokens; uint32 n_cached, at most n_tokens; uint32 n_note
//   int32 tokens[n_tokens]
//   keys and values of the first n_cached tokens, as kv_export of backend.h lays them out: any backend can take them up
//   char note[n_note]: a conversation as JSON, say; nothing here reads it
//   uint64 checksum of all before
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/model/weights.h"

namespace bonsai::host {

// What keys and values depend on besides the tokens.
struct SessionOrigin {
  uint64_t model = 0;  // model_fingerprint()
  bonsai_kv_dtype kv_dtype = BONSAI_KV_F16;
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  bool operator==(const SessionOrigin &) const = default;
};

// Of keys and values of n tokens, in bytes. Precondition: the shape is a model's; Q8_0: 32 divides head_dim.
uint64_t session_cache_bytes(const SessionOrigin &origin, uint32_t n_tokens);

struct SessionFile {
  SessionOrigin origin;
  std::vector<int32_t> tokens;
  uint32_t n_cached = 0;
  std::span<const std::byte> cache;  // of the bytes that were parsed or are to be written
  std::string_view note;             // likewise
};

// Errors say what is wrong and what was expected, without the path: another kind of file, a newer version, a length
// that does not fit, a checksum.
Result<SessionFile> parse_session_file(std::span<const std::byte> bytes);

// Replaces `path` in one step (AtomicFile); a new file is for its owner only, since conversations are private. Errors
// begin with the path; also a note of 4 GiB.
Result<void> write_session_file(const std::string &path, const SessionFile &file);

// Before a session is computed or written: that `path` is new, or a file that may be lost for it. Errors begin with the
// path: what check_replaceable() says, or a file that holds something else than a session, such as a model.
Result<void> check_session_replaceable(const std::string &path);

// Tells models apart: shapes, norms, and of every matrix its format and some of its weights. Not proof against intent.
uint64_t model_fingerprint(const model::Model &model);

}  // namespace bonsai::host
