# Settings that every target shares, and the functions that declare libraries, plugins and programs.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# In the cache: a package is installed for the build type of the outermost project, which may be another.
get_property(has_several_types GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT has_several_types)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo, Debug or MinSizeRel" FORCE)
endif()
if(has_several_types AND PROJECT_IS_TOP_LEVEL)
  message(FATAL_ERROR "${CMAKE_GENERATOR}: the build tree is laid out for one build type, expected a generator such as Ninja")
endif()

# Warnings are errors, except in another project; --compile-no-warning-as-error of cmake lets them be warnings.
if(NOT DEFINED CMAKE_COMPILE_WARNING_AS_ERROR)
  set(CMAKE_COMPILE_WARNING_AS_ERROR ${PROJECT_IS_TOP_LEVEL})
endif()

find_program(CCACHE ccache)
foreach(language C CXX)
  if(CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)  # an empty one says that there is to be none
    # Without these words it takes nothing that has to do with precompiled headers.
    set(CMAKE_${language}_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  endif()
endforeach()

add_library(bonsai_options INTERFACE)
# No contraction: a fused multiply-add happens where the source says so, and nowhere else.
target_compile_options(bonsai_options INTERFACE -Wall -Wextra -ffp-contract=off)
target_include_directories(bonsai_options INTERFACE ${PROJECT_SOURCE_DIR})
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Where several sources are compiled as one, it takes what is local to them for a header's.
  target_compile_options(bonsai_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()
if(BONSAI_SANITIZE)
  target_compile_options(bonsai_options INTERFACE
    -fsanitize=${BONSAI_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(bonsai_options INTERFACE -fsanitize=${BONSAI_SANITIZE})
endif()

# With CMAKE_UNITY_BUILD, as the presets have it, so many sources of the product are compiled as one.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)

# bonsai_apart(SOURCES...) says that sources have names that another of their target has for something else: with
# CMAKE_UNITY_BUILD, which compiles several sources as one in less time, these are compiled by themselves.
function(bonsai_apart)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    set_property(GLOBAL APPEND PROPERTY BONSAI_APART ${source})
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()

# bonsai_keep_apart(SOURCES...) says it again of those of another directory's sources of which it has been said.
function(bonsai_keep_apart)
  get_property(apart GLOBAL PROPERTY BONSAI_APART)
  foreach(source IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH source)
    if(source IN_LIST apart)
      set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# bonsai_library(NAME SOURCES... ) makes a static library inside the project; link what it needs with target_link_libraries.
function(bonsai_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC bonsai_options)
endfunction()

# bonsai_plugin(NAME SOURCES...) makes lib/bonsai/lib${name}.so, exporting bonsai_backend_entry and nothing else.
function(bonsai_plugin name)
  add_library(${name} MODULE ${ARGN})
  target_link_libraries(${name} PRIVATE bonsai_options bonsai_abi)
  target_link_options(${name} PRIVATE
    -Wl,--version-script=${PROJECT_SOURCE_DIR}/abi/plugin.map -Wl,--no-undefined)
  set_target_properties(${name} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${BONSAI_PLUGIN_OUTPUT_DIRECTORY}
    LINK_DEPENDS ${PROJECT_SOURCE_DIR}/abi/plugin.map)
endfunction()

# bonsai_program(NAME SOURCES...) makes and installs bin/NAME.
function(bonsai_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE bonsai_options)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()
