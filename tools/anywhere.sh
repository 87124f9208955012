#!/usr/bin/env bash
# Runs the README's two commands where nothing is installed: in a bare root of Debian (debootstrap's
# minbase, git and make), as three users. Needs root, debootstrap, 6 GiB of disk and 20 minutes per case.
#   tools/anywhere.sh                        Debian 12 and 13, all cases
#   tools/anywhere.sh trixie nosudo          one suite, one case (root, sudo, nosudo)
#   MIRROR=http://... tools/anywhere.sh      packages from this mirror; default: this computer's mirror
#   CACHE=folder tools/anywhere.sh           ccache in the roots too, so that only a suite's first case compiles
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/anywhere
suites=(${1:-bookworm trixie})
cases=(${2:-root sudo nosudo})
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | grep -m 1 -E '/debian/?$' || true)}

# inside ROOT USER COMMAND: runs it in separate namespaces, so that no mount or process is left.
inside() {
  unshare --mount --pid --fork bash -c '
    mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && { [[ ! $4 ]] || mount --bind "$4" "$1/mnt"; } &&
    exec chroot "$1" su - "$2" -c "$3"' inside "$@" "${CACHE:-}"
}

bare_root() {  # SUITE ROOT
  [[ -e $work/$1.tar ]] || {
    debootstrap --variant=minbase --include="git,make${CACHE:+,ccache}" "$1" "$work/$1" "$mirror" >"$work/$1.log"
    tar -C "$work/$1" -cf "$work/$1.tar" . && rm -rf "${work:?}/$1"
  }
  rm -rf "$2" && mkdir "$2" && tar -C "$2" -xf "$work/$1.tar"
  cp /etc/resolv.conf "$2/etc/"
  apt-config dump Acquire >"$2/etc/apt/apt.conf.d/99-as-here"  # proxies and settings of the mirror
  printf 'cache_dir = /mnt\nhash_dir = false\numask = 000\n' >"$2/etc/ccache.conf"
}

try() {  # SUITE CASE
  local root=$work/$1-$2 user=ada folder="/home/ada/für später/tessera" words="make train && make test"
  bare_root "$1" "$root"
  [[ $2 != root ]] || user=root
  chroot "$root" useradd --create-home --shell /bin/bash ada
  git clone --quiet --no-local . "$root$folder"
  if [[ $2 == sudo ]]; then
    inside "$root" root "apt-get update -qq && apt-get install -qq -y sudo" >"$root.log" 2>&1
    echo "ada ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/ada"
    chroot "$root" chown -R ada: /home/ada
  elif [[ $2 == nosudo ]]; then  # the checkout is read-only too: each refusal must name a remedy
    local said
    said=$(inside "$root" ada "cd '$folder' && make train" 2>&1) && return 1
    grep "make BUILD=/elsewhere train" <<<"$said"
    words="make BUILD=/home/ada/build train && make BUILD=/home/ada/build test"
    said=$(inside "$root" ada "cd '$folder' && $words" 2>&1) && return 1
    said=$(grep -oE "apt-get update && apt-get install .*" <<<"$said")
    inside "$root" root "$said" >"$root.log" 2>&1
    chroot "$root" su ada -c "git config --global --add safe.directory '$folder'"
  fi
  inside "$root" $user "cd '$folder' && $words" >>"$root.log" 2>&1
}

mkdir -p "$work"
[[ ! ${CACHE:-} ]] || { mkdir -p "$CACHE" && chmod 777 "$CACHE"; }  # users of the roots write there
failed=0
for suite in "${suites[@]}"; do
  for case in "${cases[@]}"; do
    start=$SECONDS
    set +e
    (set -e; try "$suite" "$case")  # in a condition it would not stop at the first error
    [[ $? -eq 0 ]] && said=passed || said=FAILED failed=1
    set -e
    root=$work/$suite-$case
    echo "$suite $case: $said in $((SECONDS - start)) s;" \
      "$(chroot "$root" sh -c 'g++ -dumpfullversion; cmake --version | head -n 1' 2>/dev/null | paste -sd' ');" \
      "$(grep -E '^final test accuracy|tests passed|tests failed' "$root.log" | paste -sd';')"
    [[ $said == FAILED ]] && tail -n 20 "$root.log" || rm -rf "$root"
  done
done
exit $failed
