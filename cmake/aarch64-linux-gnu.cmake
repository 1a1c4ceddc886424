# Cross-compiling for AArch64 with Debian's g++-aarch64-linux-gnu: a program that needs no libraries but the compiler's,
#   cmake -S tests/plugins/cpu/digest -B BUILD --toolchain cmake/aarch64-linux-gnu.cmake
# or all of the project, with the libraries that tests/aarch64/fetch_libraries.sh puts into a directory (absolute):
#   cmake -B BUILD --toolchain cmake/aarch64-linux-gnu.cmake -DBONSAI_SYSROOT=DIRECTORY
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
if(BONSAI_SYSROOT)
  list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BONSAI_SYSROOT)
  set(CMAKE_SYSROOT ${BONSAI_SYSROOT})
  set(CMAKE_FIND_ROOT_PATH ${BONSAI_SYSROOT})
  set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
  set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${BONSAI_SYSROOT})
  set(ENV{PKG_CONFIG_LIBDIR}
    ${BONSAI_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${BONSAI_SYSROOT}/usr/share/pkgconfig)
endif()
