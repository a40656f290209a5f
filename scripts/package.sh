#!/usr/bin/env bash
# Makes a folder with the programs and the shared libraries that a bare machine lacks. Copy it to any x86-64 Linux with
# glibc 2.36 or newer (Debian 12, Ubuntu 24.04 ...) and start bin/tern there. The C library and CUDA are those of the
# machine.
#   scripts/package.sh [FOLDER]     (out/tern) must not exist, or must be an earlier package
# TERN_BUILD_DIR=build/cuda uses the programs of that build instead of building them, and adds everything that
# scripts/gpu_check.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022  # Others than the maker use what this makes.

to=$(realpath -m "${1:-out/tern}")
if [ -e "$to" ] && [ ! -e "$to/bin/tern_worker" ]; then
  echo "package: $to exists and is not an earlier package; give a new folder" >&2
  exit 64
fi
source scripts/lib/programs.sh
source scripts/lib/libraries.sh
if [ -z "${TERN_BUILD_DIR:-}" ]; then
  scripts/install_deps.sh
  scripts/build_libzmq.sh
fi
use_programs
if [[ $("$bin/tern" --version) != *"with Tern's patches"* ]]; then
  echo "package: the programs in $bin are linked with Debian's libzmq; run scripts/build_libzmq.sh, configure and build again (cmake --preset, cmake --build --preset)" >&2
  exit 1
fi

# The versions of what the package freezes: who runs it compares them with the distribution's security updates.
frozen_versions() {
  echo "# Made on $(date --utc +%F) by scripts/package.sh. Security updates of these packages need a new package."
  echo "tern $(git describe --always --dirty 2>/dev/null || echo unknown)"
  "$to/bin/tern" --version
  echo "libzmq.a zeromq3 $(cat build/libzmq/version) with the patches in share/doc/libzmq"
  sort -u "$1"
}

rm -rf "$to"
mkdir -p "$to/lib" "$to/share/doc"
build=$(dirname "$bin")
cmake --install "$build" --prefix "$to" >/dev/null
programs=("$to"/bin/*)
check=''
if [ -x "$build/bench/gpu_bench" ]; then
  check=', scripts/gpu_check.sh'
  cmake --install "$build" --prefix "$to" --component gpu_check >/dev/null
  programs+=("$to"/bench/gpu_bench "$to"/bench/net_steps "$to"/tests/kernels/gpu_kernels_test "$to"/tests/worker/engine/gpu_engine_test)
fi
versions=$(mktemp)
trap 'rm -f "$versions"' EXIT
while read -r name path; do
  [[ $name =~ $node_has ]] && continue
  if [ "$path" = not ]; then
    echo "package: the library $name is needed but not on this machine" >&2
    exit 1
  fi
  cp -L "$path" "$to/lib/$name"
  package=$(package_of "$(realpath "$path")")
  echo "$name ${package:-unknown} $([ -z "$package" ] || dpkg-query -W -f='${Version}' "$package")" >>"$versions"
  if [ -n "$package" ] && [ -r "/usr/share/doc/$package/copyright" ]; then
    cp "/usr/share/doc/$package/copyright" "$to/share/doc/$package.copyright"
  fi
done < <(needed "${programs[@]}")

# libzmq is linked into the programs.
mkdir -p "$to/share/doc/libzmq"
cp build/libzmq/doc/* "$to/share/doc/libzmq"
frozen_versions "$versions" >"$to/share/doc/versions.txt"

# Checks that no library of this machine is used, except those that every machine has.
while read -r name path; do
  if [[ ! $name =~ $node_has ]] && [[ $path != "$to"/* ]]; then
    echo "package: $name comes from $path, expected it in $to/lib" >&2
    exit 1
  fi
done < <(env -u LD_LIBRARY_PATH ldd "${programs[@]}" | awk '$2 == "=>" {print $1, $3}' | sort -u)
echo "package: $to, $(du -sh "$to" | cut -f1), $(find "$to/lib" -type f | wc -l) libraries$check"
