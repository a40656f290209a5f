#!/usr/bin/env bash
# Makes one file with everything that scripts/package.sh puts into a folder, for a machine that takes few files: it unpacks
# itself, with xz and tar or with python3. Such a machine needs glibc 2.36 or newer and, for a GPU, NVIDIA's driver and libraries.
#   scripts/pack.sh [FILE]         (out/tern.run) of programs in build/cpu, or in TERN_BUILD_DIR
#   scripts/pack.sh --one [FILE]   for Hopper alone, with all of scripts/gpu_check.sh: builds them in build/cuda_gate
# There: sh FILE [FOLDER] makes FOLDER (tern). Programs have no symbols. Fails if the file is larger than 30 MB.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022  # Others than the maker use what this makes.

max_bytes=30000000
if [ "${1:-}" = --one ]; then
  shift
  scripts/install_deps.sh
  scripts/build_libzmq.sh
  cmake --preset cuda_gate --log-level=WARNING
  cmake --build --preset cuda_gate -j "$(nproc)" --target gpu_programs tern tern_server tern_worker
  export TERN_BUILD_DIR=build/cuda_gate
fi
case "${1:-}" in -*) echo "pack: unknown argument '$1'; known: --one" >&2; exit 64 ;; esac
file=$(realpath -m "${1:-out/tern.run}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/package.sh "$work/tern" >&2
programs=()
while IFS= read -r path; do
  if [ "$(head -c 4 "$path" | tr -d '\0')" = $'\177ELF' ]; then programs+=("$path"); fi
done < <(find "$work/tern" -type f)
strip "${programs[@]}"

# What unpacks the rest of the file, which begins at line @LINE@.
unpacker() {
  cat <<'END'
#!/bin/sh
# Tern in one file: sh THIS [FOLDER] unpacks it into FOLDER (tern), which must not exist.
set -eu
to=${1:-tern}
if [ -e "$to" ]; then
  echo "$0: $to exists; give a new folder" >&2
  exit 64
fi
mkdir -p "$to"
if command -v xz >/dev/null && command -v tar >/dev/null; then
  tail -n +@LINE@ "$0" | xz -dc | tar -xf - -C "$to"
elif command -v python3 >/dev/null; then
  python3 - "$0" "$to" <<'PYTHON'
import sys, tarfile
with open(sys.argv[1], "rb") as file:
    for _ in range(@LINE@ - 1):
        file.readline()
    tarfile.open(fileobj=file, mode="r|xz").extractall(sys.argv[2])
PYTHON
else
  echo "$0: needs xz and tar, or python3, to unpack" >&2
  exit 69
fi
echo "unpacked into $to; $to/bin/tern --help"
exit
END
}
mkdir -p "$(dirname "$file")"
lines=$(unpacker | wc -l)
{
  unpacker | sed "s/@LINE@/$((lines + 1))/"
  tar -cf - -C "$work/tern" --sort=name --owner=0 --group=0 --numeric-owner . | xz --x86 --lzma2=preset=9,dict=64MiB
} >"$file"
bytes=$(stat -c %s "$file")
echo "pack: $file, $bytes bytes, of $(du -sb "$work/tern" | cut -f1) unpacked"
if [ "$bytes" -gt "$max_bytes" ]; then
  echo "pack: it is to have at most $max_bytes bytes" >&2
  exit 1
fi
