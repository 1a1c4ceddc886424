// How far apart the cores are that threads run on: what decoding, whose threads wait for each other some hundred times
// a token, loses where they share no cache.
#pragma once

namespace bonsai::bench {

// Seconds that a cache line takes from one of two threads to the other, wherever the system has put these: the median
// of a thousand rounds in groups of 16. Where both have one core, it is what the scheduler takes.
double measure_handover();

}  // namespace bonsai::bench
