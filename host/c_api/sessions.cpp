// Sessions for C.
#include <bonsai/bonsai.h>
#include <bonsai/engine.h>

#include <algorithm>
#include <cstdint>

#include "host/c_api/arguments.h"
#include "host/c_api/generation.h"
#include "host/c_api/handles.h"
#include "host/c_api/options.h"
#include "host/c_api/outcome.h"

using namespace bonsai;
using namespace bonsai::c_api;

bonsai_outcome bonsai_session_new(const bonsai_engine *engine, bonsai_engine_session **session,
                                  bonsai_failure *failure) {
  return guarded(failure, [&] {
    required(session, "session") = nullptr;
    const Engine &known = *required(engine, "engine").engine;
    *session = new bonsai_engine_session{known.new_session(), known.model().vocabulary};
  });
}

void bonsai_session_free(bonsai_engine_session *session) { delete session; }

bonsai_outcome bonsai_session_append(bonsai_engine_session *session, const char *text, uint64_t n_bytes,
                                     bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.append(text_of(text, n_bytes, "text")); });
}

bonsai_outcome bonsai_session_append_tokens(bonsai_engine_session *session, const int32_t *tokens, uint64_t n_tokens,
                                            bonsai_failure *failure) {
  return guarded(failure,
                 [&] { required(session, "session").session.append_tokens(array_of(tokens, n_tokens, "tokens")); });
}

bonsai_outcome bonsai_session_generate(bonsai_engine_session *session, const bonsai_generate_options *options,
                                       bonsai_text_fn receive, void *context, const bonsai_generation **generation,
                                       bonsai_failure *failure) {
  return generate_text(failure, {receive, context, generation}, [&](const TextCallback &callback) {
    return required(session, "session").session.generate(generate_options(options), callback);
  });
}

bonsai_outcome bonsai_session_logits(bonsai_engine_session *session, float *logits, uint64_t capacity,
                                     bonsai_failure *failure) {
  return guarded(failure, [&] {
    bonsai_engine_session &known = required(session, "session");
    float &first = required(logits, "logits");
    check_capacity(capacity, known.vocabulary);
    std::ranges::copy(known.session.logits(), &first);
  });
}

uint32_t bonsai_session_length(const bonsai_engine_session *session) {
  return session == nullptr ? 0 : session->session.length();
}

uint32_t bonsai_session_room(const bonsai_engine_session *session) {
  return session == nullptr ? 0 : session->session.room();
}

bonsai_outcome bonsai_session_tokens(const bonsai_engine_session *session, int32_t *tokens, uint64_t capacity,
                                     uint64_t *n, bonsai_failure *failure) {
  return guarded(failure, [&] { hand_out(required(session, "session").session.tokens(), tokens, capacity, n); });
}

bonsai_outcome bonsai_session_truncate(bonsai_engine_session *session, uint32_t length, bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.truncate(length); });
}

bonsai_outcome bonsai_session_save(const bonsai_engine_session *session, const char *path, bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.save(&required(path, "path")); });
}

bonsai_outcome bonsai_session_load(bonsai_engine_session *session, const char *path, bonsai_failure *failure) {
  return guarded(failure, [&] { required(session, "session").session.load(&required(path, "path")); });
}
