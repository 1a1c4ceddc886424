// Work on streams: submitting it, recording it, and running it when something waits.
#pragma once

#include "tests/plugins/cuda/fake_driver/world.h"

namespace bonsai::fake {

// Checks the addresses of a copy or fill. Throws Misuse.
void check_addresses(const World &world, const Work &work);

// Puts work at the end of the stream, or into the recording that the stream is in.
void submit(World &world, Stream &stream, Work work);
void submit(World &world, Stream &stream, Record record);

// Runs the stream up to a position. Throws Refusal for what failed.
void run_until(World &world, Stream &stream, uint64_t position);
// Runs all streams of a context.
void run_all(World &world, const Context &context);

}  // namespace bonsai::fake
