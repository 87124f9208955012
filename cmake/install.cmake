# The install target and the files that find_package(tessera) reads. Headers keep their spelling,
# "tessera/..."; each tier installs its own (cmake/tiers.cmake).

include(CMakePackageConfigHelpers)

install(TARGETS tessera_runtime tessera_memory tessera_engine tessera_layers tessera_graph
  tessera_core tessera_data tessera_models tessera EXPORT tessera)
install(EXPORT tessera NAMESPACE tessera:: FILE tessera-targets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
install(FILES core.h tessera.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera)
if(TESSERA_WITH_CUDA)
  install(FILES cuda.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera)
endif()

# pkg-config: the static libraries, from the upper tiers down, and their dependencies.
set(TESSERA_PC_CUDA "")
if(TESSERA_WITH_CUDA)
  set(TESSERA_PC_CUDA " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
configure_file(cmake/tessera.pc.in ${PROJECT_BINARY_DIR}/cmake/tessera.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/cmake/tessera.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

configure_package_config_file(cmake/tessera-config.cmake.in
  ${PROJECT_BINARY_DIR}/cmake/tessera-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/tessera-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/tessera-config.cmake
  ${PROJECT_BINARY_DIR}/cmake/tessera-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
