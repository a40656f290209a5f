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
made_by='by scripts/package.sh.'  # in the first line of versions.txt, which no other folder has
if [ -e "$to" ] && ! head -n 1 "$to/share/doc/versions.txt" 2>/dev/null | grep -qF "$made_by"; then
  echo "package: $to exists and is not an earlier package, which has share/doc/versions.txt; give a new folder" >&2
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
  echo "# Made on $(date --utc +%F) $made_by Security updates of these packages need a new package."
  echo "tern $(git describe --always --dirty 2>/dev/null || echo unknown)"
  "$made/bin/tern" --version
  echo "libzmq.a zeromq3 $(cat build/libzmq/version) with the patches in share/doc/libzmq"
  sort -u "$1"
}

# It is made beside its place and moved there when it is whole, so an interrupted run leaves what was there.
mkdir -p "$(dirname "$to")"
work=$(mktemp -d "$to.XXXXXX")
trap 'rm -rf "$work"' EXIT
made=$work/made
mkdir -p "$made/lib" "$made/share/doc"
build=$(dirname "$bin")
cmake --install "$build" --prefix "$made" >/dev/null
programs=("$made"/bin/*)
check=''
if [ -x "$build/bench/gpu_bench" ]; then
  check=', scripts/gpu_check.sh'
  cmake --install "$build" --prefix "$made" --component gpu_check >/dev/null
  programs+=("$made"/bench/gpu_bench "$made"/bench/net_steps "$made"/tests/kernels/gpu_kernels_test "$made"/tests/worker/engine/gpu_engine_test)
fi
versions=$work/versions
while read -r name path; do
  [[ $name =~ $node_has ]] && continue
  if [ "$path" = not ]; then
    echo "package: the library $name is needed but not on this machine" >&2
    exit 1
  fi
  cp -L "$path" "$made/lib/$name"
  package=$(package_of "$(realpath "$path")")
  echo "$name ${package:-unknown} $([ -z "$package" ] || dpkg-query -W -f='${Version}' "$package")" >>"$versions"
  if [ -n "$package" ] && [ -r "/usr/share/doc/$package/copyright" ]; then
    cp "/usr/share/doc/$package/copyright" "$made/share/doc/$package.copyright"
  fi
done < <(needed "${programs[@]}")

# libzmq is linked into the programs.
mkdir -p "$made/share/doc/libzmq"
cp build/libzmq/doc/* "$made/share/doc/libzmq"
frozen_versions "$versions" >"$made/share/doc/versions.txt"

# Checks that no library of this machine is used, except those that every machine has.
while read -r name path; do
  if [[ ! $name =~ $node_has ]] && [[ $path != "$made"/* ]]; then
    echo "package: $name comes from $path, expected it in the lib of the package" >&2
    exit 1
  fi
done < <(env -u LD_LIBRARY_PATH ldd "${programs[@]}" | awk '$2 == "=>" {print $1, $3}' | sort -u)
[ ! -e "$to" ] || mv "$to" "$work/earlier"
mv "$made" "$to"
echo "package: $to, $(du -sh "$to" | cut -f1), $(find "$to/lib" -type f | wc -l) libraries$check"
