# Installs the build into a directory of its own and uses it from there: the program finds its backends and its model
# without the build tree, and its library asks for nothing that was not installed.
#
#   cmake -DBUILD=<build directory> -DPREFIX=<scratch directory> -P install_test.cmake

function(run_or_fail)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${ARGV}: exit status ${status}\n${out}\n${err}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${PREFIX})
run_or_fail(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX})
unset(ENV{BONSAI_BACKEND_PATH})

run_or_fail(${PREFIX}/bin/bonsai backends --json)
string(FIND "${out}" "${PREFIX}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the installed program lists no backend below ${PREFIX}:\n${out}")
endif()

run_or_fail(${PREFIX}/bin/bonsai run -p "Once upon a time" -n 8 --temp 0)
string(FIND "${out}" "Once upon a time" at)
if(at EQUAL -1)
  message(FATAL_ERROR "the installed program told no story:\n${out}")
endif()

if(NOT EXISTS ${PREFIX}/include/bonsai/backend.h)
  message(FATAL_ERROR "include/bonsai/backend.h was not installed")
endif()
file(REMOVE_RECURSE ${PREFIX})
