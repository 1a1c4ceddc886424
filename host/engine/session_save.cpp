// Sessions on disk.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/mapped_file.h"
#include "host/engine/session_file.h"
#include "host/engine/session_state.h"

namespace bonsai::host {
namespace {

SessionOrigin origin_of(const EngineState &engine) {
  const model::Config &config = engine.model.config;
  return {.model = model_fingerprint(engine.model),
          .kv_dtype = engine.sizes.kv_dtype,
          .layers = config.layers,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim};
}

[[noreturn]] void refuse(ErrorKind kind, const std::string &path, std::string_view reason) {
  throw EngineError(kind, fmt::format("{}: {}", path, reason));
}

}  // namespace

void SessionState::save(const std::string &path, std::string_view note) {
  // Before keys and values are copied, which may be gigabytes.
  value_or_throw(check_session_replaceable(path), ErrorKind::kInvalidArgument);
  const uint32_t n = std::min(n_computed_, length());
  SessionFile file{.origin = origin_of(*engine_), .tokens = tokens_, .n_cached = n, .cache = {}, .note = note};
  std::vector<std::byte> cache(session_cache_bytes(file.origin, n));
  if (n > 0) {
    const auto exported = placement_->kv_export(*executor_, block_table_, n, cache);
    if (!exported) {
      engine_->log(LogLevel::kWarning,
                   fmt::format("{}: saved without keys and values: {}", path, exported.error().message));
      file.n_cached = 0;
      cache.clear();
    }
  }
  file.cache = cache;
  value_or_throw(write_session_file(path, file), ErrorKind::kInvalidArgument);
}

void SessionState::load(const std::string &path, const NoteReader &read_note) {
  const MappedFile mapped = value_or_throw(MappedFile::open(path), ErrorKind::kInvalidArgument);
  auto parsed = parse_session_file(mapped.bytes());
  if (!parsed) refuse(ErrorKind::kInvalidArgument, path, parsed.error().message);
  SessionFile &file = *parsed;
  const SessionOrigin origin = origin_of(*engine_);
  if (file.origin.model != origin.model)
    refuse(ErrorKind::kInvalidArgument, path,
           "a session of another model: its keys and values would mean nothing here");
  try {
    if (!file.tokens.empty()) engine_->check_tokens(file.tokens);
  } catch (const EngineError &error) {
    refuse(error.kind(), path, error.what());
  }
  if (file.tokens.size() > engine_->context())
    refuse(ErrorKind::kContextFull, path,
           fmt::format("a session of {} tokens, room for {} (context)", file.tokens.size(), engine_->context()));
  if (read_note) read_note(file.note);
  // The last token is run again for its logits.
  const auto n_before_last = static_cast<uint32_t>(std::max<size_t>(file.tokens.size(), 1) - 1);
  const uint32_t n = std::min(file.n_cached, n_before_last);
  bool is_imported = false;
  if (n > 0 && file.origin != origin) {
    engine_->log(LogLevel::kWarning, fmt::format("{}: keys and values of another KV type are computed again", path));
  } else if (n > 0) {
    n_computed_ = 0;
    is_imported = import_cache(file.n_cached, file.cache);
  }
  tokens_ = std::move(file.tokens);  // behind all that throws, as the log may
  n_computed_ = is_imported ? n : 0;
}

bool SessionState::import_cache(uint32_t n_tokens, std::span<const std::byte> cache) {
  const auto imported = placement_->kv_import(*executor_, block_table_, n_tokens, cache);
  if (!imported)
    engine_->log(LogLevel::kWarning, fmt::format("keys and values are computed again: {}", imported.error().message));
  return imported.has_value();
}

}  // namespace bonsai::host
