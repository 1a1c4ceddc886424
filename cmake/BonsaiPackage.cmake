# What other projects find Bonsai by: a CMake package, with bonsai::bonsai for programs that embed it and bonsai::backend
# for backends, and a file for pkg-config. And what their authors read.
include(CMakePackageConfigHelpers)

# Under these names find_package(Bonsai) finds it, and find_package(bonsai), too.
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/bonsai)
install(EXPORT bonsai NAMESPACE bonsai:: FILE bonsai-targets.cmake DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/bonsai-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/bonsai-config.cmake ${PROJECT_BINARY_DIR}/bonsai-config-version.cmake
  DESTINATION ${package})

# Of each other, whatever the directories are called, so that the whole may be moved.
file(RELATIVE_PATH include_from_lib ${CMAKE_INSTALL_FULL_LIBDIR} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
configure_file(${CMAKE_CURRENT_LIST_DIR}/bonsai.pc.in ${PROJECT_BINARY_DIR}/bonsai.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/bonsai.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# As they lie here, so that they find each other.
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
