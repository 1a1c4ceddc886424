# find_package(Bonsai) or find_package(bonsai) gives
#   bonsai::bonsai     the library, for programs that embed it; it asks for C++20
#   bonsai::backend    the header <bonsai/backend.h>, for backends, in C or C++
#   BONSAI_PLUGIN_DIR  the directory where this installation looks for backends, named libbonsai_NAME.so
include(${CMAKE_CURRENT_LIST_DIR}/bonsai-targets.cmake)
get_filename_component(BONSAI_PLUGIN_DIR ${CMAKE_CURRENT_LIST_DIR}/../../bonsai ABSOLUTE)
