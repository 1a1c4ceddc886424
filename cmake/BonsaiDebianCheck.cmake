# What cpack reads first: without these programs it would fail late, or make a package that depends on nothing.
if(CPACK_GENERATOR STREQUAL "DEB")
  find_program(BONSAI_SHLIBDEPS dpkg-shlibdeps)
  find_program(BONSAI_FILE file)
  if(NOT BONSAI_SHLIBDEPS OR NOT BONSAI_FILE)
    message(FATAL_ERROR "dpkg-shlibdeps or file is not found: install dpkg-dev and file")
  endif()
endif()
