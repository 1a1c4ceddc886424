# Registers the suites of a GoogleTest program with CTest, a test of CTest's for each: PROGRAM_NAME.SUITE runs all of a
# suite's tests in one process. To start one for each of thousands took a quarter of the time that all of them took.
#
#   cmake -D NAME=... -D PROGRAM=... -D FILE=... [-D PROPERTIES=...] -P discover_suites.cmake
#
# FILE gets the commands, for CTest to include; PROPERTIES are names and values for set_tests_properties(). A suite of
# which every test was skipped counts as skipped.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests
  TIMEOUT 60 OUTPUT_VARIABLE listing RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${status}\n${listing}")
endif()
# Lines of suites begin at the margin and end with a full stop; behind it there may be a comment.
string(REGEX MATCHALL "(^|\n)[^ \n]+\\." suites "${listing}")
# What ends with these lines had no failure, which CTest would not look at any more.
set(skipped "\\[  PASSED  \\] 0 tests\\.\n(\\[  SKIPPED \\] [^\n]*\n)+$")
set(commands)
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  string(REGEX REPLACE "\\.$" "" suite "${suite}")
  string(APPEND commands "add_test([=[${NAME}.${suite}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${suite}.*]=])\n")
  string(APPEND commands "set_tests_properties([=[${NAME}.${suite}]=] PROPERTIES "
    "SKIP_REGULAR_EXPRESSION [=[${skipped}]=] ${PROPERTIES})\n")
endforeach()
if(NOT commands)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests named no suite, expected at least one:\n${listing}")
endif()
file(WRITE ${FILE} "${commands}")
