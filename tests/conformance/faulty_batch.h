// What a fault makes of a batch.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>

#include "tests/conformance/faulty.h"

namespace bonsai::test {

// Whether the CPU backend will take the batch, so that a fault may read it.
bool is_readable(const Session &session, const bonsai_batch *batch, const uint64_t *ticket);

// forward_submit of a batch that is readable.
bonsai_status submit_faultily(Session &session, bonsai_batch batch, const bonsai_output *const *outputs,
                              uint32_t n_outputs, uint64_t *ticket, bonsai_error *error);

}  // namespace bonsai::test
