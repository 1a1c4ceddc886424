// Times work that several threads do at the same time.
#pragma once

#include <cstddef>
#include <functional>

namespace bonsai::bench {

// `threads` threads, the caller among them, each call prepare(thread) once and then work(thread) `passes` times, all
// together. Returns the seconds of the fastest pass, from where the first thread begins it to where the last one ends
// it. As many threads as there are processors get one each, for as long as this takes. Precondition: both numbers are
// at least 1; neither function throws.
double fastest_pass(int threads, int passes, const std::function<void(size_t)> &prepare,
                    const std::function<void(size_t)> &work);

}  // namespace bonsai::bench
