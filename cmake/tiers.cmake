# A tier is a static library: runtime < memory < engine < layers | graph < models, and runtime < data
# < models. Linking only downwards makes a call to an upper tier a link error; tests/tools checks the
# includes as well. HEADERS are the public ones: only these are installed, and they include only
# installed headers (tools/check_includes.py).

find_package(Threads REQUIRED)
include(GNUInstallDirs)

function(tessera_options target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -ffp-contract=off>
    $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TESSERA_STRICT}>>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TESSERA_STRICT}>>:-Xcompiler=-Werror -Werror=all-warnings>)
endfunction()

# Precompiles the headers that nearly every file includes, and those given, once per target. The
# preset `dev` does not precompile, so it finds files with a missing include.
function(tessera_precompile target)
  target_precompile_headers(${target} PRIVATE <algorithm> <cmath> <cstdint> <cstring> <filesystem>
    <functional> <map> <memory> <optional> <span> <string> <string_view> <utility> <vector>
    <fmt/format.h> ${ARGN})
endfunction()

# For code other than SIMD sources. In Release, g++ optimizes loops as with -O3 and all else as with -O1,
# which takes four fifths of the time to compile.
function(tessera_build_fast target)
  target_compile_options(${target} PRIVATE
    "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANG_AND_ID:CXX,GNU>>:-O1;-fstrict-aliasing;-fpeel-loops;-ftree-loop-vectorize;-fvect-cost-model=dynamic>"
    $<$<AND:$<CONFIG:Release>,$<COMPILE_LANG_AND_ID:CXX,Clang>>:-O2>)
endfunction()

# Compiles 24 files as one, which parses their headers once; names in anonymous namespaces must
# therefore differ. The presets `dev` and `portable` compile each file alone, which finds a missing
# include.
function(tessera_join target)
  if(NOT DEFINED CMAKE_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    target_compile_options(${target} PRIVATE  # g++ treats all files but the first as headers
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# For the double, compiles kernels as C++; a header replaces the language extensions of nvcc.
function(tessera_kernels_of_double)
  list(FILTER ARGN INCLUDE REGEX "\\.cu$")
  if(TESSERA_CUDA STREQUAL DOUBLE AND ARGN)
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX SKIP_PRECOMPILE_HEADERS ON
      COMPILE_OPTIONS "-include;${PROJECT_SOURCE_DIR}/tests/cuda_double/emulator.h")
  endif()
endfunction()

# Joins kernels into files that include five .cu files each, because nvcc parses the headers again for
# each architecture.
function(tessera_join_kernels result)
  set(joined ${ARGN})
  if(NOT TESSERA_CUDA STREQUAL DOUBLE AND NOT DEFINED CMAKE_UNITY_BUILD)
    list(FILTER joined EXCLUDE REGEX "\\.cu$")
    list(FILTER ARGN INCLUDE REGEX "\\.cu$")
    set(text "")
    set(number 0)
    foreach(kernels IN LISTS ARGN)
      string(APPEND text "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${kernels}\"\n")
      math(EXPR number "${number} + 1")
      math(EXPR rest "${number} % 5")
      list(GET ARGN -1 last)
      if(rest EQUAL 0 OR kernels STREQUAL last)
        set(file ${CMAKE_CURRENT_BINARY_DIR}/kernels_${number}.cu)
        file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
        list(APPEND joined ${file})
        set(text "")
      endif()
    endforeach()
  endif()
  set(${result} ${joined} PARENT_SCOPE)
endfunction()

# Adds a tier. SIMD sources are compiled once per instruction set; AVX sources have no baseline; BF16
# sources, with products of bfloat16, are also compiled with VDPBF16PS. AVX, BF16 and NATIVE sources,
# which call them, exist only on x86-64.
function(tessera_tier name)
  cmake_parse_arguments(TIER "" "FOLDER"
    "HEADERS;CUDA_HEADERS;SOURCES;SIMD;NATIVE;AVX;BF16;CUDA;LINK;PRIVATE" ${ARGN})
  set(target tessera_${name})
  if(NOT TIER_FOLDER)
    set(TIER_FOLDER ${name})
  endif()
  add_library(${target} STATIC ${TIER_SOURCES})
  set(headers ${TIER_HEADERS})
  if(TESSERA_WITH_CUDA)
    tessera_join_kernels(sources ${TIER_CUDA})
    target_sources(${target} PRIVATE ${sources})
    tessera_kernels_of_double(${TIER_CUDA})
    list(APPEND headers ${TIER_CUDA_HEADERS})
  endif()
  foreach(header IN LISTS headers)
    get_filename_component(folder ${TIER_FOLDER}/${header} DIRECTORY)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tessera/${folder})
  endforeach()
  add_library(tessera::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  tessera_options(${target})
  tessera_build_fast(${target})
  # Files of runtime stay apart, as small programs link only some of them.
  if(NOT name STREQUAL runtime)
    tessera_join(${target})
  endif()
  if(name STREQUAL runtime)
    tessera_precompile(${target})
  else()
    target_precompile_headers(${target} REUSE_FROM tessera_runtime)
  endif()
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(${target} PUBLIC ${TIER_LINK} PRIVATE ${TIER_PRIVATE})
  foreach(source IN LISTS TIER_SIMD)
    tessera_simd_source(${target} ${source} "${TESSERA_ISAS}")
  endforeach()
  if(TESSERA_AVX_ISAS)
    target_sources(${target} PRIVATE ${TIER_NATIVE})
    foreach(source IN LISTS TIER_AVX)
      tessera_simd_source(${target} ${source} "${TESSERA_AVX_ISAS}")
    endforeach()
    foreach(source IN LISTS TIER_BF16)
      tessera_simd_source(${target} ${source} "${TESSERA_AVX_ISAS};avx512_bf16")
    endforeach()
  endif()
endfunction()

# SIMD files are compiled once per instruction set, each time in another namespace (TESSERA_ISA). They
# must not instantiate templates with external linkage: the linker would keep one copy for all.
set(TESSERA_AVX_ISAS "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND NOT CMAKE_CXX_FLAGS MATCHES "-DTESSERA_PORTABLE")
  set(TESSERA_AVX_ISAS avx2 avx512)
endif()
set(TESSERA_ISAS baseline ${TESSERA_AVX_ISAS})
set(TESSERA_FLAGS_baseline "")
set(TESSERA_FLAGS_avx2 -mavx2 -mfma -mtune=haswell)
set(TESSERA_FLAGS_avx512 -mavx2 -mfma -mavx512f -mavx512dq -mavx512bw -mavx512vl
    -mtune=skylake-avx512 -mprefer-vector-width=512)
set(TESSERA_FLAGS_avx512_bf16 ${TESSERA_FLAGS_avx512} -mavx512bf16)

set(TESSERA_SIMD_LEVEL -O3)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")  # a kernel shares nothing: its caller gives it a range
  list(APPEND TESSERA_SIMD_LEVEL -fno-sanitize=thread)
elseif(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(TESSERA_SIMD_LEVEL -O1)  # -O3 would optimize the sanitizers' checks for minutes per file
endif()

function(tessera_simd_source target source isas)
  get_filename_component(stem ${source} NAME_WE)
  foreach(isa IN LISTS isas)
    set(object ${target}_${stem}_${isa})
    add_library(${object} OBJECT ${source})
    tessera_options(${object})
    target_compile_features(${object} PRIVATE cxx_std_20)
    # -Wno-psabi: functions that take several vectors are inlined. The last option prevents g++ from
    # clearing a tile of registers with a call of memset.
    target_compile_options(${object} PRIVATE ${TESSERA_FLAGS_${isa}} ${TESSERA_SIMD_LEVEL} -Wno-psabi
      -fno-math-errno -fno-trapping-math $<$<CXX_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns>)
    target_compile_definitions(${object} PRIVATE TESSERA_ISA=${isa})
    target_include_directories(${object} PRIVATE ${PROJECT_BINARY_DIR}/include)
    # Private and headers only, so programs that link the library do not need Eigen.
    target_include_directories(${object} SYSTEM PRIVATE
      $<TARGET_PROPERTY:Eigen3::Eigen,INTERFACE_INCLUDE_DIRECTORIES>)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
endfunction()
