// What the shared library exports: everything else in it is hidden.
#pragma once

// Here, as every header that needs it includes this one.
#if __cplusplus <= 201703L
#error "Bonsai's headers need C++20: compile with -std=c++20 or newer"
#endif

#if defined(_WIN32)
#define BONSAI_API
#else
#define BONSAI_API __attribute__((visibility("default")))
#endif
