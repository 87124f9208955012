#!/usr/bin/env bash
# Installs the Debian packages that building Tessera needs, and those given as arguments, if they are
# missing; prints nothing if none is. Uses sudo unless it is run by root.
set -euo pipefail

packages=(
  build-essential cmake ninja-build pkg-config python3
  libfmt-dev libeigen3-dev libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libhdf5-dev zlib1g-dev libjpeg-dev libpng-dev libwebp7
  libarchive-dev libcurl4-openssl-dev libssl-dev libgtest-dev
  libonnx-dev libprotobuf-dev protobuf-compiler
  "$@"
)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: this is not a Debian system, so nothing was installed." >&2
  echo "setup: install what Debian calls ${packages[*]}; CMake reports what it does not find." >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  by_hand="apt-get update && apt-get install -y ${missing[*]}"
  if ! command -v sudo >/dev/null; then
    echo "setup: packages are missing, and no sudo is available to install them; run as root:" >&2
    echo "  $by_hand" >&2
    exit 1
  fi
  if ! sudo apt-get --version >/dev/null; then
    echo "setup: packages are missing, and sudo refused to install them (above); have root run:" >&2
    echo "  $by_hand" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install=(env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends)
if ! { "${as_root[@]}" apt-get update -qq &&
       "${as_root[@]}" "${install[@]}" "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
  cat "$log" >&2
  echo "setup: apt-get could not install ${missing[*]}; its error message is above" >&2
  exit 1
fi
