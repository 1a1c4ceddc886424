# Another project takes Bonsai in as a part of itself: its targets have the names that the installed package gives them,
# its tests are not built, a backend is built with the library, and the other project's package, compiler launcher and
# way with warnings are its own. Configures and builds nothing.
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
get_target_property(built_with libbonsai MANUALLY_ADDED_DEPENDENCIES)
if(NOT bonsai_cpu IN_LIST built_with)
  message(FATAL_ERROR \"nothing builds a backend with the library\")
endif()
if(BONSAI_TESTS OR TARGET cli_test)
  message(FATAL_ERROR \"a part of another project builds its tests\")
endif()
")
run_or_fail(${CMAKE_COMMAND} -S ${SCRATCH} -B ${SCRATCH}/build)
if(EXISTS ${SCRATCH}/build/CPackConfig.cmake)
  message(FATAL_ERROR "a part of another project says how that is packaged")
endif()
# Else what is installed would lack the files of the build type that Bonsai is built as.
file(STRINGS ${SCRATCH}/build/cmake_install.cmake type REGEX "set\\(CMAKE_INSTALL_CONFIG_NAME \"Release\"\\)")
if(NOT type)
  message(FATAL_ERROR "a project without a build type installs another than Bonsai's, which is Release")
endif()
file(REMOVE_RECURSE ${SCRATCH})
