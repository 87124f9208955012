# cmake -D BUILD=... -D WORK=... -D CONSUMER=... -D CXX=... -D LIBDIR=... -P pkg_config.cmake
# Uses the installed package without CMake: a compiler and pkg-config.
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
set(ENV{PKG_CONFIG_PATH} ${WORK}/prefix/${LIBDIR}/pkgconfig)
execute_process(COMMAND pkg-config --cflags --libs tessera OUTPUT_VARIABLE flags
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")  # pkg-config escapes blanks of paths
separate_arguments(own UNIX_COMMAND "${CXX_FLAGS}")
execute_process(COMMAND ${CXX} ${own} ${CONSUMER}/main.cc -o ${WORK}/consumer ${flags} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${WORK}/consumer OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
if(NOT said STREQUAL "19 22 43 50, in its own memory\n")
  message(FATAL_ERROR "the consumer printed '${said}'")
endif()
