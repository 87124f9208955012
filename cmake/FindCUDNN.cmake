# Finds cuDNN: its headers, version and library. Sets CUDNN_INCLUDE_DIR, CUDNN_LIBRARY and
# CUDNN_VERSION. CUDNN_ROOT, a variable of CMake or of the environment, names the folder of an
# installation: for PyPI's package nvidia/cudnn in site-packages.
find_package(CUDAToolkit QUIET)
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT
  ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
get_filename_component(CUDNN_BESIDE "${CUDNN_INCLUDE_DIR}" DIRECTORY)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDNN_ROOT} ENV CUDNN_ROOT
  ${CUDNN_BESIDE} ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)

set(CUDNN_VERSION "")
if(EXISTS "${CUDNN_INCLUDE_DIR}/cudnn_version.h")
  file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h lines
    REGEX "^#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) [0-9]+")
  foreach(part MAJOR MINOR PATCHLEVEL)
    if("${lines}" MATCHES "CUDNN_${part} ([0-9]+)")
      list(APPEND CUDNN_VERSION ${CMAKE_MATCH_1})
    endif()
  endforeach()
  string(REPLACE ";" "." CUDNN_VERSION "${CUDNN_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CUDNN REQUIRED_VARS CUDNN_INCLUDE_DIR CUDNN_LIBRARY
  VERSION_VAR CUDNN_VERSION)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)
