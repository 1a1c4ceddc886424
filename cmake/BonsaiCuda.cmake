# BONSAI_CUDA=AUTO|ON|OFF: whether the CUDA plugin is built. It needs cuda.h and nvrtc.h of CUDA 12.0 or newer, and nothing
# else of CUDA: the driver and NVRTC are loaded at run time. Sets BONSAI_CUDA_INCLUDE_DIR where it is to be built.

set(BONSAI_CUDA AUTO CACHE STRING "Build the CUDA plugin: AUTO (where CUDA's headers are), ON or OFF")
set_property(CACHE BONSAI_CUDA PROPERTY STRINGS AUTO ON OFF)

# bonsai_find_cuda_headers(DIRECTORY PROBLEM) finds the headers' directory, or says in one line why there is none.
function(bonsai_find_cuda_headers directory problem)
  set(${directory} "" PARENT_SCOPE)
  set(hint "CUDA_HOME may name a toolkit, or BONSAI_CUDA_HEADERS the headers' directory")
  set(toolkits ENV CUDA_HOME ENV CUDA_PATH ENV CUDAToolkit_ROOT)
  find_path(BONSAI_CUDA_HEADERS NAMES nvrtc.h HINTS ${toolkits} PATHS /usr/local/cuda PATH_SUFFIXES include
    DOC "Where cuda.h and nvrtc.h are")
  mark_as_advanced(BONSAI_CUDA_HEADERS)
  if(NOT EXISTS "${BONSAI_CUDA_HEADERS}/cuda.h" OR NOT EXISTS "${BONSAI_CUDA_HEADERS}/nvrtc.h")
    set(${problem} "cuda.h and nvrtc.h are not found; ${hint}" PARENT_SCOPE)
    unset(BONSAI_CUDA_HEADERS CACHE)  # they are looked for again
    return()
  endif()
  file(STRINGS "${BONSAI_CUDA_HEADERS}/cuda.h" version REGEX "^#define CUDA_VERSION [0-9]+" LIMIT_COUNT 1)
  string(REGEX REPLACE "[^0-9]" "" version "${version}")
  if(NOT version GREATER_EQUAL 12000)
    set(${problem} "${BONSAI_CUDA_HEADERS}/cuda.h has version ${version}, expected at least 12000; ${hint}" PARENT_SCOPE)
    unset(BONSAI_CUDA_HEADERS CACHE)
    return()
  endif()
  set(${directory} "${BONSAI_CUDA_HEADERS}" PARENT_SCOPE)
endfunction()

set(BONSAI_CUDA_INCLUDE_DIR "")
if(BONSAI_CUDA STREQUAL "AUTO" OR BONSAI_CUDA)
  bonsai_find_cuda_headers(BONSAI_CUDA_INCLUDE_DIR cuda_problem)
  if(BONSAI_CUDA_INCLUDE_DIR)
    message(STATUS "CUDA plugin: built, with the headers in ${BONSAI_CUDA_INCLUDE_DIR}")
  elseif(BONSAI_CUDA STREQUAL "AUTO")
    message(STATUS "CUDA plugin: not built, ${cuda_problem}")
  else()
    message(FATAL_ERROR "BONSAI_CUDA is ${BONSAI_CUDA}, but ${cuda_problem}")
  endif()
endif()
