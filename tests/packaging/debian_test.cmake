# Makes the Debian package of a build, unpacks it, and has the program tell a story from there.
# It is made under a umask that lets nobody else in, which must not show in it.
#
#   cmake -DCPACK=<cpack> -DBUILD=<build directory> -DSCRATCH=<scratch directory> -P debian_test.cmake

include(${CMAKE_CURRENT_LIST_DIR}/run_or_fail.cmake)

file(REMOVE_RECURSE ${SCRATCH})
unset(ENV{BONSAI_BACKEND_PATH})
set(cpack ${CPACK} --config ${BUILD}/CPackConfig.cmake)
run_or_fail(sh -c "umask 077 && exec \"$@\"" sh ${cpack} -B ${SCRATCH})
file(GLOB package ${SCRATCH}/bonsai_*.deb)

run_or_fail(dpkg-deb --contents ${package})
string(STRIP "${out}" entries)
string(REPLACE "\n" ";" entries "${entries}")
foreach(entry IN LISTS entries)
  if(NOT entry MATCHES "^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--|lrwxrwxrwx) root/root ")
    message(FATAL_ERROR "not everybody may use what is in the package: ${entry}")
  endif()
endforeach()

run_or_fail(dpkg-deb --field ${package} Depends)
foreach(needed libtbb12 libspdlog libboost-program-options libedit2)
  if(NOT out MATCHES ${needed})
    message(FATAL_ERROR "the package does not depend on ${needed}: ${out}")
  endif()
endforeach()

# Where dpkg-shlibdeps cannot be found.
execute_process(
  COMMAND ${cpack} -D "CMAKE_IGNORE_PATH=/usr/bin;/bin" -B ${SCRATCH}/refused
  RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE err)
file(GLOB refused ${SCRATCH}/refused/*.deb)
if(status EQUAL 0 OR refused OR NOT err MATCHES "install dpkg-dev and file")
  message(FATAL_ERROR "a package was made without dpkg-shlibdeps, or no word said why not:\n${err}")
endif()

run_or_fail(dpkg-deb --extract ${package} ${SCRATCH}/root)
file(GLOB documented RELATIVE ${SCRATCH}/root/usr/share/doc ${SCRATCH}/root/usr/share/doc/*)
if(NOT documented STREQUAL "bonsai")
  message(FATAL_ERROR "the package's share/doc holds ${documented}, expected bonsai alone")
endif()
run_or_fail(${SCRATCH}/root/usr/bin/bonsai run -p "Once upon a time" -n 8 --temp 0)
if(NOT out MATCHES "Once upon a time")
  message(FATAL_ERROR "the packaged program told no story:\n${out}")
endif()
run_or_fail(${SCRATCH}/root/usr/bin/bonsai backends --json)
string(FIND "${out}" "${SCRATCH}/root/usr/lib/bonsai/libbonsai_cpu.so" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the packaged program does not find its backend:\n${out}")
endif()
