# bonsai_fuzz_test(NAME SOURCES target.cpp... CORE targets... [APART sources...] [LIBS libraries...] [ITERATIONS n])
#
# Makes a fuzz test of SOURCES, which define what fuzz_target.h declares. The sources of the CORE targets (bonsai_gguf,
# say) are compiled again for it with AddressSanitizer and UndefinedBehaviorSanitizer, as one but for the files APART;
# the rest of the build stays as it is. LIBS are what those sources link from outside the project. The default build runs
# a fixed sequence of mutated inputs as an ordinary test. With -DBONSAI_LIBFUZZER=ON (clang only) the programs are
# libFuzzer's instead, and no tests: build/tests/NAME CORPUS_DIRECTORY.
include_guard(GLOBAL)

option(BONSAI_LIBFUZZER "Link the fuzz targets with libFuzzer (clang)" OFF)
set(BONSAI_FUZZ_DIRECTORY ${CMAKE_CURRENT_LIST_DIR})

add_library(bonsai_fuzz_options INTERFACE)
target_link_libraries(bonsai_fuzz_options INTERFACE bonsai_options fmt::fmt nlohmann_json::nlohmann_json)
# -Og: 0.8 to 1 times the speed of -O1 in half of the time to compile.
target_compile_options(bonsai_fuzz_options INTERFACE -Og -g1 -UNDEBUG ${BONSAI_WITHOUT_WRONG_WARNINGS})
if(NOT BONSAI_SANITIZE)
  target_compile_options(bonsai_fuzz_options INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(bonsai_fuzz_options INTERFACE -fsanitize=address,undefined)
endif()
if(BONSAI_LIBFUZZER)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "BONSAI_LIBFUZZER: ${CMAKE_CXX_COMPILER} has no libFuzzer, expected Clang")
  endif()
  target_compile_options(bonsai_fuzz_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
bonsai_shared_headers(bonsai_fuzz_headers bonsai_fuzz_options
  <algorithm> <array> <cstdint> <cstring> <fmt/format.h> <functional> <map> <memory> <nlohmann/json.hpp> <optional>
  <span> <string> <string_view> <tl/expected.hpp> <utility> <variant> <vector>)

function(bonsai_fuzz_test name)
  cmake_parse_arguments(arg "" "ITERATIONS" "SOURCES;CORE;APART;LIBS" ${ARGN})
  if(NOT arg_ITERATIONS)
    set(arg_ITERATIONS 10000)
  endif()

  set(sources ${arg_SOURCES})
  foreach(target IN LISTS arg_CORE)
    get_target_property(directory ${target} SOURCE_DIR)
    get_target_property(files ${target} SOURCES)
    foreach(file IN LISTS files)
      cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${directory})
      list(APPEND sources ${file})
    endforeach()
  endforeach()
  if(NOT BONSAI_LIBFUZZER)
    list(APPEND sources ${BONSAI_FUZZ_DIRECTORY}/driver.cpp)
  endif()

  set_property(GLOBAL APPEND PROPERTY BONSAI_FUZZ_TARGETS ${name})
  add_executable(${name} ${sources})
  bonsai_keep_apart(${sources})
  bonsai_apart(${arg_APART})
  target_link_libraries(${name} PRIVATE bonsai_fuzz_options ${arg_LIBS})
  target_precompile_headers(${name} REUSE_FROM bonsai_fuzz_headers)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
  if(BONSAI_LIBFUZZER)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endif()
  if(NOT BONSAI_LIBFUZZER)
    add_test(NAME ${name} COMMAND ${name} --count ${arg_ITERATIONS})
    set_tests_properties(${name} PROPERTIES TIMEOUT 120)
  endif()
endfunction()
