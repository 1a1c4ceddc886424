# `cd build && cpack` makes bonsai_VERSION_ARCHITECTURE.deb there: the programs, the library and its headers, the backends
# and the models that the first command needs. dpkg-shlibdeps finds out what it depends on.
set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_NAME bonsai)
set(CPACK_PACKAGE_CONTACT "The Bonsai Runtime authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/BonsaiDebianPermissions.cmake)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/BonsaiDebianCheck.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
