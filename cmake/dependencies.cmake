# Finds every dependency; names the Debian package of a missing one. None is vendored.


macro(tessera_need package debian)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "tessera: ${package} not found; on Debian: apt-get install ${debian} "
      "(tools/setup.sh installs everything)")
  endif()
endmacro()

tessera_need(fmt libfmt-dev)
tessera_need(Eigen3 libeigen3-dev 3.4)
tessera_need(yaml-cpp libyaml-cpp-dev)
tessera_need(nlohmann_json nlohmann-json3-dev)
tessera_need(ZLIB zlib1g-dev)
tessera_need(JPEG libjpeg-dev)
tessera_need(PNG libpng-dev)
tessera_need(HDF5 libhdf5-dev COMPONENTS C)
tessera_need(OpenSSL libssl-dev COMPONENTS Crypto)
if(TESSERA_TOOLS)
  tessera_need(CLI11 libcli11-dev)
  tessera_need(CURL libcurl4-openssl-dev)
  tessera_need(LibArchive libarchive-dev)
  find_package(Protobuf QUIET)  # ONNX does not find it itself
  if(Protobuf_FOUND)
    find_package(ONNX QUIET)
  endif()
  if(NOT ONNX_FOUND)
    message(STATUS "tessera: ONNX not found, `trainer export` to .onnx is left out; on Debian: "
      "apt-get install libonnx-dev libprotobuf-dev protobuf-compiler")
  endif()
  find_package(MPI QUIET COMPONENTS CXX)  # for a module that programs load (runtime/exchange/exchange.h)
  if(NOT MPI_CXX_FOUND)
    message(STATUS "tessera: MPI not found, mpirun cannot share a training and its tests are left out; on "
      "Debian: apt-get install libopenmpi-dev openmpi-bin")
  endif()
endif()
if(TESSERA_TESTS)
  tessera_need(GTest libgtest-dev)
endif()

# 9.8 is the first version that supports described (absent) devices.
macro(tessera_need_cudnn)
  list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_package(CUDNN 9.8 QUIET)
  if(NOT CUDNN_FOUND)
    message(FATAL_ERROR "tessera: the GPU back end needs cuDNN 9.8 or newer, with its headers; found: "
      "'${CUDNN_VERSION}' '${CUDNN_INCLUDE_DIR}'. From NVIDIA's repository for Debian: apt-get install "
      "libcudnn9-dev-cuda-${CUDAToolkit_VERSION_MAJOR}; from PyPI: pip install "
      "nvidia-cudnn-cu${CUDAToolkit_VERSION_MAJOR}, and -DCUDNN_ROOT=<site-packages>/nvidia/cudnn. "
      "-DTESSERA_CUDA=OFF builds without GPUs")
  endif()
endmacro()

if(NOT TESSERA_CUDA MATCHES "^(AUTO|ON|OFF|DOUBLE)$")
  message(FATAL_ERROR "TESSERA_CUDA must be AUTO, ON, OFF or DOUBLE; it is '${TESSERA_CUDA}'")
endif()
set(TESSERA_WITH_CUDA 0)
if(TESSERA_CUDA STREQUAL DOUBLE)  # only the vendor's headers; tests/cuda_double replaces the rest
  find_package(CUDAToolkit REQUIRED)
  tessera_need_cudnn()
  set(TESSERA_WITH_CUDA 1)
  set(TESSERA_CUDA_FOLDER ${PROJECT_BINARY_DIR}/lib/cuda_double)
  set(TESSERA_CUDNN_FOLDER ${TESSERA_CUDA_FOLDER})
  set(CMAKE_CUDA_ARCHITECTURES 90)
  message(STATUS "tessera: the GPU back end is built on a simulated GPU")
elseif(NOT TESSERA_CUDA STREQUAL OFF)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_ARCHITECTURES)  # TESSERA_CUDA_ALL for packages: every common generation
    find_program(NVIDIA_SMI nvidia-smi)
    if(TESSERA_CUDA_ALL)
      set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100-real 120)  # 8.6 and 8.9 run code of 8.0; newer: from the last PTX
    elseif(NVIDIA_SMI)
      set(CMAKE_CUDA_ARCHITECTURES native)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80)  # with PTX, which every newer GPU translates
    endif()
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 lacks nvcc's option
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    find_package(CUDAToolkit REQUIRED)
    set(TESSERA_WITH_CUDA 1)
    set(TESSERA_CUDA_FOLDER ${CUDAToolkit_LIBRARY_DIR})  # of libraries loaded at run time
    if(TARGET CUDA::cublasLt)
      get_target_property(TESSERA_CUDA_FOLDER CUDA::cublasLt IMPORTED_LOCATION)
      get_filename_component(TESSERA_CUDA_FOLDER ${TESSERA_CUDA_FOLDER} DIRECTORY)
    endif()
    tessera_need_cudnn()
    get_filename_component(TESSERA_CUDNN_FOLDER ${CUDNN_LIBRARY} DIRECTORY)
    message(STATUS "tessera: CUDA ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, the GPU back end is built")
  elseif(TESSERA_CUDA STREQUAL ON)
    message(FATAL_ERROR "TESSERA_CUDA=ON, but no CUDA compiler was found: put nvcc on the PATH")
  else()
    message(STATUS "tessera: no CUDA compiler found, the GPU back end is left out")
  endif()
endif()
