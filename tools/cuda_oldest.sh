#!/usr/bin/env bash
# Builds the GPU back end with the oldest CUDA and cuDNN that README promises. docs/gpu-runs.md has the
# results.
#
#   tools/cuda_oldest.sh fetch FOLDER    CUDA 12.0's headers and cuDNN 9.8 from PyPI, 1.1 GB; nvcc 12.4 from
#                                        Debian 13, 1.0 GB (PyPI's packages of CUDA 12 have no nvcc)
#   tools/cuda_oldest.sh double FOLDER   builds trainer and gpu_tests on the simulated GPU with CUDA 12.0's headers
#   tools/cuda_oldest.sh gpu FOLDER      builds them with nvcc 12.4 for sm_80
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
word=${1:-}
if [[ $# -ne 2 ]]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
mkdir -p "$2"
folder=$(cd "$2" && pwd)

unpack_wheels() {  # joins include/ and lib/ of all wheels in one root
  local root=$1 wheel
  shift
  mkdir -p "$root/include" "$root/lib"
  for wheel in "$@"; do
    python3 -m zipfile -e "$wheel" "$folder/unpacked"
  done
  cp -r "$folder"/unpacked/nvidia/*/include/. "$root/include"
  cp -r "$folder"/unpacked/nvidia/*/lib/. "$root/lib"
  rm -r "$folder/unpacked"
}

fetch() {
  local pip=$folder/venv/bin/pip debian=$folder/debian root=$folder/cuda-12.4 apt mirror
  python3 -m venv "$folder/venv"
  "$pip" download -q --no-deps -d "$folder/wheels" nvidia-cuda-runtime-cu12==12.0.146 \
    nvidia-cuda-nvcc-cu12==12.0.140 nvidia-cuda-cccl-cu12==12.0.140 nvidia-cublas-cu12==12.0.2.224 \
    'nvidia-cudnn-cu12==9.8.*'
  unpack_wheels "$folder/cudnn-9.8" "$folder"/wheels/nvidia_cudnn_*
  rm -rf "$folder/cuda-12.0"
  unpack_wheels "$folder/cuda-12.0" "$folder"/wheels/nvidia_cu{da,blas}*
  mkdir -p "$folder/cuda-12.0/bin"  # the double needs no compiler, but CMake runs one for its version
  printf '#!/bin/sh\necho "Cuda compilation tools, release 12.0, V12.0.140"\n' > "$folder/cuda-12.0/bin/nvcc"
  chmod +x "$folder/cuda-12.0/bin/nvcc"

  mkdir -p "$debian"/{lists/partial,cache/archives/partial}
  mirror=$(apt-get indextargets --format '$(SITE)' | awk '/\/debian\/?$/ && !n++')  # this computer's mirror
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main non-free" \
    > "$debian/sources.list"
  touch "$debian/status"
  apt=(apt-get -q -o "Dir::Etc::sourcelist=$debian/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$debian/lists" -o "Dir::State::status=$debian/status" -o "Dir::Cache=$debian/cache")
  "${apt[@]}" update
  (cd "$debian" && "${apt[@]}" download nvidia-cuda-toolkit nvidia-cuda-dev libcu++-dev libcub-dev libthrust-dev)
  rm -rf "$root"
  for package in "$debian"/*.deb; do
    dpkg -x "$package" "$debian/root"
  done
  # nvcc and CMake expect the layout of NVIDIA's own installers.
  mkdir -p "$root/bin" "$root/nvvm/bin" "$root/nvvm/libdevice"
  cp -a "$debian"/root/usr/bin/* "$root/bin/"
  rm "$root/bin/nvcc"  # a script that starts the real nvcc in /usr/lib
  cp -a "$debian"/root/usr/lib/nvidia-cuda-toolkit/bin/{nvcc,crt} "$root/bin/"
  cp "$debian/root/usr/lib/nvidia-cuda-toolkit/bin/cicc" "$root/nvvm/bin/"
  cp "$debian"/root/usr/lib/nvidia-cuda-toolkit/libdevice/* "$root/nvvm/libdevice/"
  cp -a "$debian/root/usr/include" "$root/include"
  mkdir -p "$root/lib64"
  cp -a "$debian"/root/usr/lib/x86_64-linux-gnu/lib{cudart,cudadevrt,culibos,cublasLt.so}* "$root/lib64/"
  cat > "$root/bin/nvcc.profile" << 'END'
TOP = $(_HERE_)/..
CICC_PATH = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
LIBRARIES =+ $(_SPACE_) "-L$(TOP)/lib64"
END
  rm -rf "$debian/root"
}

configure() {  # NAME TOOLKIT OPTION..
  local name=$1 toolkit=$2
  shift 2
  CUDNN_ROOT=$folder/cudnn-9.8 cmake -S "$here" -B "$here/build/$name" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DTESSERA_STRICT=ON -DCUDAToolkit_ROOT="$folder/$toolkit" -DCUDNN_ROOT="$folder/cudnn-9.8" \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@"
}
configure_double() { configure oldest_double cuda-12.0 -DTESSERA_CUDA=DOUBLE; }
configure_gpu() {
  configure oldest_gpu cuda-12.4 -DTESSERA_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=80 \
    -DCMAKE_CUDA_COMPILER="$folder/cuda-12.4/bin/nvcc"
}

case $word in
  fetch) fetch ;;
  double)
    configure_double
    cmake --build "$here/build/oldest_double" -j "${JOBS:-2}" --target trainer gpu_tests double_tests
    ;;
  gpu)
    configure_gpu
    cmake --build "$here/build/oldest_gpu" -j "${JOBS:-2}" --target trainer gpu_tests
    ;;
  *)
    echo "cuda_oldest: '$word' is none of fetch, double, gpu" >&2
    exit 2
    ;;
esac
