// The CPU backend's entry under a name of its own: a plugin that holds it exports another.
#pragma once

#include <bonsai/backend.h>

extern "C" const bonsai_backend_api *bonsai_cpu_entry(uint32_t host_major, uint32_t host_minor);
