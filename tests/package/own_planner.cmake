# cmake -D BUILD=... -D WORK=... -D SOURCE=... -D CXX=... -P own_planner.cmake
# Builds the example planner against the installed package, in a program and as a library.
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G Ninja
  -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_CXX_COMPILER=${CXX}
  -D "CMAKE_CXX_FLAGS=${CXX_FLAGS}" -D CMAKE_BUILD_TYPE=${BUILD_TYPE}
  COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK}/build COMMAND_ERROR_IS_FATAL ANY)

function(expect pattern)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE code)
  if(NOT said MATCHES "${pattern}")
    message(FATAL_ERROR "${ARGN}\nexit ${code}, printed:\n${said}")
  endif()
endfunction()

set(library ${WORK}/build/liblottery.so)
set(bin ${WORK}/prefix/bin)
file(WRITE ${WORK}/tiny.csv "id,lower,upper,size\na,0,2,8\nb,0,5,4\nc,2,5,8\n")
file(WRITE ${WORK}/tiny.yaml "model: {name: lenet5}\ndata: {name: fashion_mnist, batch: 4}\n")
expect("lottery: [0-9]+ bytes" ${WORK}/build/own_planner)
expect("lottery +12 +1.0000" ${bin}/planner compare --planner-lib ${library} ${WORK}/tiny.csv)
expect("planner lottery" ${bin}/trainer plan --planner-lib ${library} --config ${WORK}/tiny.yaml
  memory.planner=lottery)
expect("planner: lottery" ${bin}/trainer --planner-lib ${library} --print-config
  --config ${WORK}/tiny.yaml memory.planner=lottery)
expect("'lottery' is not one of" ${bin}/trainer plan --config ${WORK}/tiny.yaml
  memory.planner=lottery)
expect("cannot be loaded" ${bin}/planner compare --planner-lib ${WORK}/none.so ${WORK}/tiny.csv)

# The example strategy.
set(strategy ${WORK}/build/libevery_nth.so)
file(WRITE ${WORK}/tiny.txt "value a 4\nvalue b 8\nvalue c 8\nvalue d 4 result\n"
  "step f 5 makes=b\nstep g 5 reads=a makes=c\nstep h 5 reads=c,b makes=d\n")
expect("every_nth +24 +0.00 %" ${bin}/planner recompute ${WORK}/tiny.txt --compare
  --strategy-lib ${strategy})
expect("unknown strategy 'every_nth'" ${bin}/planner recompute ${WORK}/tiny.txt
  --strategy every_nth)
expect("no planner for this version" ${bin}/planner compare --planner-lib ${strategy}
  ${WORK}/tiny.csv)
