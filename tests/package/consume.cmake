# cmake -D HOW=find_package|core|add_subdirectory|FetchContent -D BUILD=... -D SOURCE=... -D WORK=...
#   -D CONSUMER=... -D CXX=... -D CXX_FLAGS=... -D BUILD_TYPE=... -D SAYS=... -P consume.cmake
# Builds the consumer as HOW says and runs it.
file(REMOVE_RECURSE ${WORK})
if(HOW MATCHES "^(find_package|core)$")
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
    OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G Ninja -D HOW=${HOW}
  -D TESSERA_SOURCE=${SOURCE} -D TESSERA_CUDA=OFF -D ONLY_MEMORY=${ONLY_MEMORY}
  -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_CXX_COMPILER=${CXX}
  -D "CMAKE_CXX_FLAGS=${CXX_FLAGS}" -D CMAKE_BUILD_TYPE=${BUILD_TYPE}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build --target consumer
  COMMAND_ERROR_IS_FATAL ANY)
if(HOW STREQUAL core)  # loads no libraries for data sets and configurations
  execute_process(COMMAND ldd ${WORK}/build/consumer OUTPUT_VARIABLE loads COMMAND_ERROR_IS_FATAL ANY)
  if(loads MATCHES "libhdf5|libjpeg|libpng|libz|libyaml|libcurl")
    message(FATAL_ERROR "the core loads: ${loads}")
  endif()
endif()
execute_process(COMMAND ${WORK}/build/consumer OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
if(NOT said STREQUAL "${SAYS}\n")
  message(FATAL_ERROR "the consumer printed '${said}'")
endif()
