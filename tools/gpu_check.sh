#!/usr/bin/env bash
# Checks the GPU back end on a machine that has a GPU, Python with PyTorch, and little else: what runs
# there is built here and put into one folder. docs/gpu-runs.md has the words.
#
#   tools/gpu_check.sh prepare [ARCHITECTURE]   here: builds for it (90: H100, H200), fills build/gpu_check
#   tools/gpu_check.sh collect BUILD FOLDER     here: the second half of that, of a build that is there
#   tools/gpu_check.sh run [--out FOLDER] PART..   there, in a copy of this repository with build/gpu_check:
#                                               correctness, sanitizer, bench, tune; under 10 minutes each
#   tools/gpu_check.sh table FOLDER..           the Markdown of what such runs have left
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
programs=(trainer gpu_tests promise_tests)
most_mib=64

# Packs the stripped programs and the libraries that they need, except those of the C library, which the
# other machine provides. 30 MiB of them are tables that are not read here.
collect() {
  local build=$1 folder=$2 name library
  rm -rf "$folder"
  mkdir -p "$folder/bin" "$folder/lib"
  for name in "${programs[@]}"; do
    strip -o "$folder/bin/$name" "$build/bin/$name"
  done
  ldd "$folder"/bin/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(ld-linux-x86-64|lib(c|m|mvec|dl|pthread|rt|resolv))\.so' |
    while read -r library; do
      strip --strip-unneeded -o "$folder/lib/$(basename "$library")" "$(realpath "$library")"
    done
  tar -C "$folder" -czf "$folder/packed.tar.gz" bin lib
  rm -r "$folder/bin" "$folder/lib"
  du -sm "$folder" | awk '{print "gpu_check: " $2 ": " $1 " MiB"}'
}

prepare() {
  local build=$here/build/gpu folder=$here/build/gpu_check
  cmake -S "$here" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTESSERA_STRICT=ON \
    -DTESSERA_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="${1:-90}"
  cmake --build "$build" --target "${programs[@]}"
  collect "$build" "$folder"
  if (($(du -sm "$folder" | cut -f1) > most_mib)); then
    echo "gpu_check: that is more than $most_mib MiB; prepare it for one architecture" >&2
    exit 1
  fi
}

word=${1:-}
shift || true
case $word in
  prepare) prepare "$@" ;;
  collect) collect "$@" ;;
  run | table) exec python3 "$here/tools/bench/gpu_check.py" "$word" "$@" ;;
  *)
    sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
