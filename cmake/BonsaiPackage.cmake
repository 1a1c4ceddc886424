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

# As they lie here, so that they find each other. Much of what the README links to is source, which is not installed.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md)
file(READ ${PROJECT_SOURCE_DIR}/README.md readme)
string(FIND "${readme}" "\n" title_end)
string(SUBSTRING "${readme}" 0 ${title_end} title)
string(SUBSTRING "${readme}" ${title_end} -1 readme)
file(WRITE ${PROJECT_BINARY_DIR}/README.md "${title}

(As it is installed. `docs/` lies beside it, and `tools/plugin-check/README.md`; `plugins/template` is `examples/backend`.
Other links, here and there, name files of the source tree; the headers among them, of `abi/include/bonsai/` and
`host/include/bonsai/`, are in `include/bonsai/`.)${readme}")
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/copyright ${PROJECT_BINARY_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${PROJECT_SOURCE_DIR}/tools/plugin-check/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/tools/plugin-check)
