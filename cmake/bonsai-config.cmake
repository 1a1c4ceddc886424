# find_package(Bonsai) or find_package(bonsai) gives
#   bonsai::bonsai     the library, for programs that embed it; it asks for C++20
#   bonsai::backend    the header <bonsai/backend.h>, for backends, in C or C++
#   BONSAI_PLUGIN_DIR  the directory where this installation looks for backends, named libbonsai_NAME.so
# It has no components.
foreach(component IN LISTS ${CMAKE_FIND_PACKAGE_NAME}_FIND_COMPONENTS)
  if(${CMAKE_FIND_PACKAGE_NAME}_FIND_REQUIRED_${component})
    set(${CMAKE_FIND_PACKAGE_NAME}_FOUND FALSE)
    set(${CMAKE_FIND_PACKAGE_NAME}_NOT_FOUND_MESSAGE "there is no component ${component}, expected none")
    return()
  endif()
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/bonsai-targets.cmake)
get_filename_component(BONSAI_PLUGIN_DIR ${CMAKE_CURRENT_LIST_DIR}/../../bonsai ABSOLUTE)
