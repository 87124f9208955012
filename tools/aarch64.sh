#!/usr/bin/env bash
# Cross-builds for 64-bit Arm and runs, under qemu, the tests of runtime to graph, then a short training.
# Needs Debian. Installs the cross compiler and qemu if they are missing; the Arm libraries are only
# unpacked into build/aarch64/root, so the packages of this computer do not change.
#   tools/aarch64.sh               all tests and the training
#   tools/aarch64.sh '*Conv2d*'    only these tests
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/aarch64/root
build=$PWD/build/aarch64/build
tiers=(runtime memory engine layers graph)
# Excluded: trainings and plans of whole networks, which take hours as qemu computes floats in software
# (LeNet-5 stays); a measured time; a thousand allocators, whose address ranges take 24 GiB of qemu's tables.
slow='CachingAllocator.NeedsNoMoreThanDirectForRandomEvents:Plan.CompileTimeOfResNet20:BitsOfSessions.*'
slow+=':Zoo/Bits.*/resnet20:Zoo/Bits.*/cnn_bn:Zoo/Plans.ArenaIsAtOrUnder*:Zoo/WrongLifetimes.*'
slow+=':Zoo/BudgetedTraining.*:Budgets.AreKept*:Zoo/RecomputeOf.*'

# Makes a sysroot from the Arm versions of the packages in tools/setup.sh and their dependencies. This
# apt-get has separate lists, cache and state, so it finds nothing installed. It uses this computer's
# package sources.
unpack_packages() {
  local apt=$root/apt packages
  mapfile -t packages < <(grep -oE '\b[a-z0-9.+-]+-dev\b' tools/setup.sh)
  local wanted="${packages[*]}"
  [[ $(cat "$root/packages" 2>/dev/null) != "$wanted" ]] || return 0

  echo "aarch64: unpacking into $root: ${packages[*]}"
  rm -rf "$root"
  mkdir -p "$apt"/{lists,cache}/partial
  touch "$apt/status"
  local foreign=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
    -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache"
    -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  "${foreign[@]}" update
  "${foreign[@]}" install -y --download-only --no-install-recommends "${packages[@]}"
  for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
  # Links such as libz.so -> /lib/aarch64-linux-gnu/libz.so.1 would lead out of the root.
  find "$root" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$root$(readlink "$link")" "$link"
  done
  echo "$wanted" >"$root/packages"
  rm -rf "$apt"
}

run() { qemu-aarch64 -L "$root" "$build/bin/$1" "${@:2}"; }

# Trains a smaller network than the quickstart, whose 60 steps would take half an hour.
train() {
  echo "aarch64: training"
  run trainer train --overwrite --config models/configs/quickstart.yaml '~train.epochs' train.steps=60 \
    data.batch=32 data.test_count=500 model.widths=[8,8,16,16] optimizer.lr=0.02 schedule.warmup=20st \
    run.dir="$build/quickstart" | tee "$build/training.txt"
  awk '/^final test accuracy/ { learned = $4 >= 25 }
       END { if (!learned) print "aarch64: a test accuracy of 25 % was expected; chance is 10 %"
             exit !learned }' "$build/training.txt"
}

tools/setup.sh g++-aarch64-linux-gnu qemu-user
unpack_packages
cmake -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DCMAKE_BUILD_TYPE=Release \
  -DTESSERA_CUDA=OFF -DTESSERA_STRICT=ON
ninja -C "$build" trainer "${tiers[@]/%/_tests}"

failed=()
for tier in "${tiers[@]}"; do
  echo "aarch64: ${tier}_tests"
  run "${tier}_tests" --gtest_brief=1 --gtest_filter="${1:--$slow}" || failed+=("${tier}_tests")
done
[[ -n ${1:-} ]] || train || failed+=(training)
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "aarch64: failed: ${failed[*]}" >&2
  exit 1
fi
echo "aarch64: passed"
