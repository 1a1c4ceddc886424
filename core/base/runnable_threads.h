// How many threads this process may have.
#pragma once

namespace bonsai {

// How many threads, the calling one among them, the system lets run at once; `count` at most. oneTBB throws where the
// system refuses it a thread, and on a thread of its own, which starts others, that ends the process: an arena is to be
// of no more threads than these.
int runnable_threads(int count);

}  // namespace bonsai
