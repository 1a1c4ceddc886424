// Functions of a library that was opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace bonsai::cuda {

// Finds one function. The first that is missing is remembered by name.
template <class Function>
void find_symbol(void *library, const char *name, Function *&function, std::string &missing) {
  function = reinterpret_cast<Function *>(dlsym(library, name));
  if (!function && missing.empty()) missing = name;
}

}  // namespace bonsai::cuda
