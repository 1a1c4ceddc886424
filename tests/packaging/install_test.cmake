# Installs the build into a directory of its own and uses it from there: the program finds its backends and its model
# without the build tree, and its library asks for nothing that was not installed.
#
# Another project finds it, builds programs in C++ and in C and a backend with it, and the programs find the installed
# backends.
#
#   cmake -DBUILD=<build directory> -DPREFIX=<scratch directory> -DCONSUMER=<its source> -P install_test.cmake

include(${CMAKE_CURRENT_LIST_DIR}/run_or_fail.cmake)

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

file(GLOB_RECURSE package ${PREFIX}/bonsai.pc)
foreach(where libdir=libbonsai.so includedir=bonsai/engine.h includedir=bonsai/bonsai.h plugindir=libbonsai_cpu.so)
  string(REGEX MATCH "^(.*)=(.*)$" found ${where})
  run_or_fail(pkg-config --variable=${CMAKE_MATCH_1} ${package})
  string(STRIP "${out}" directory)
  if(NOT EXISTS ${directory}/${CMAKE_MATCH_2})
    message(FATAL_ERROR "pkg-config's ${CMAKE_MATCH_1}, ${directory}, has no ${CMAKE_MATCH_2}")
  endif()
endforeach()

# Programs are linked with the version's name, by which Python has to ask for it.
file(GLOB_RECURSE library ${PREFIX}/libbonsai.so)
file(READ_SYMLINK ${library} name)
if(NOT name MATCHES "^libbonsai\\.so\\.0\\.[0-9]+$" AND NOT name MATCHES "^libbonsai\\.so\\.[1-9][0-9]*$")
  message(FATAL_ERROR "libbonsai.so is ${name}, expected the version's first number, and the second before 1.0")
endif()
file(READ ${PREFIX}/share/doc/bonsai/docs/library.md page)
string(FIND "${page}" "CDLL(\"${name}\")" at)
if(at EQUAL -1)
  message(FATAL_ERROR "docs/library.md does not load ${name}")
endif()

# What has to be there, and what installed headers and pages speak of.
foreach(page LICENSE copyright README.md docs/grammars.md abi/README.md tools/plugin-check/README.md)
  if(NOT EXISTS ${PREFIX}/share/doc/bonsai/${page})
    message(FATAL_ERROR "${page} is not installed in share/doc/bonsai")
  endif()
endforeach()
file(GLOB documented RELATIVE ${PREFIX}/share/doc ${PREFIX}/share/doc/*)
if(NOT documented STREQUAL "bonsai")
  message(FATAL_ERROR "share/doc holds ${documented}, expected bonsai alone")
endif()
file(GLOB template ${PREFIX}/share/doc/bonsai/examples/backend/template.c)
set(flags)
if(SANITIZE)  # a sanitized library can only be used by a program that is, too
  set(flags -DCMAKE_C_FLAGS=-fsanitize=${SANITIZE} -DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE})
endif()
run_or_fail(${CMAKE_COMMAND} -S ${CONSUMER} -B ${PREFIX}/consumer -DCMAKE_PREFIX_PATH=${PREFIX} -DTEMPLATE=${template} ${flags})
run_or_fail(${CMAKE_COMMAND} --build ${PREFIX}/consumer)
run_or_fail(${PREFIX}/bin/bonsai-plugin-check ${PREFIX}/consumer/libbonsai_template.so)
file(GLOB model ${PREFIX}/share/bonsai/*.gguf)
list(GET model 0 model)
foreach(story story story_c stories_c)
  run_or_fail(${PREFIX}/consumer/${story} ${model})
  if(out STREQUAL "")
    message(FATAL_ERROR "${story}, a program that was linked with the installed library, told no story")
  endif()
endforeach()
file(REMOVE_RECURSE ${PREFIX})
