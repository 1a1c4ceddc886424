# Another project takes Bonsai in as a part of itself: its targets have the names that the installed package gives them,
# its tests are not built, and the other project's package, compiler launcher and way with warnings are its own.
# Configures and builds nothing.
#
#   cmake -DSOURCE=<Bonsai's source> -DSCRATCH=<scratch directory> -P subdirectory_test.cmake

include(${CMAKE_CURRENT_LIST_DIR}/run_or_fail.cmake)

file(REMOVE_RECURSE ${SCRATCH})
file(WRITE ${SCRATCH}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(Parent LANGUAGES C CXX)
set(CMAKE_CXX_COMPILER_LAUNCHER of-the-parent)
include(FetchContent)
FetchContent_Declare(bonsai SOURCE_DIR [=[${SOURCE}]=])
FetchContent_MakeAvailable(bonsai)
foreach(target bonsai::bonsai bonsai::backend)
  if(NOT TARGET \${target})
    message(FATAL_ERROR \"\${target} is no target\")
  endif()
endforeach()
get_target_property(launcher libbonsai CXX_COMPILER_LAUNCHER)
get_target_property(warnings_are_errors libbonsai COMPILE_WARNING_AS_ERROR)
if(NOT launcher STREQUAL of-the-parent OR warnings_are_errors)
  message(FATAL_ERROR \"launcher \${launcher}, warnings as errors \${warnings_are_errors}\")
endif()
if(BONSAI_TESTS OR TARGET cli_test)
  message(FATAL_ERROR \"a part of another project builds its tests\")
endif()
")
run_or_fail(${CMAKE_COMMAND} -S ${SCRATCH} -B ${SCRATCH}/build)
if(EXISTS ${SCRATCH}/build/CPackConfig.cmake)
  message(FATAL_ERROR "a part of another project says how that is packaged")
endif()
file(REMOVE_RECURSE ${SCRATCH})
