# bonsai_shared_headers(NAME OPTIONS <header>...) makes a program whose headers are parsed once for all programs that say
#   target_link_libraries(PROGRAM PRIVATE OPTIONS)
#   target_precompile_headers(PROGRAM REUSE_FROM NAME)
# OPTIONS is an interface library with all that changes what the compiler makes of a header. For tests only: with headers
# that come by themselves, a source does not show that it forgot one.
#
# It is a program, because headers compiled for a library (-fPIC) do not serve one (-fPIE).
include_guard(GLOBAL)

function(bonsai_shared_headers name options)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${options})
  target_precompile_headers(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
