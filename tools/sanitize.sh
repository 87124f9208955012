#!/usr/bin/env bash
# Runs all tests under AddressSanitizer with UndefinedBehaviorSanitizer, and under ThreadSanitizer,
# which watches everything but the kernels (cmake/tiers.cmake): some hours on two cores.
#   tools/sanitize.sh           both
#   tools/sanitize.sh tsan      one of them: asan, tsan
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $# -gt 0 ]] || set -- asan tsan
for preset in "$@"; do
  cmake --preset "$preset"
  cmake --build --preset "$preset" -j 2
  ctest --preset "$preset" -j 2
done
