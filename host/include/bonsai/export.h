// What the shared library exports: everything else in it is hidden.
#pragma once

#if defined(_WIN32)
#define BONSAI_API
#else
#define BONSAI_API __attribute__((visibility("default")))
#endif
