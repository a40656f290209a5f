#!/usr/bin/env bash
# Checks that `tern` does not load libraries of the current folder: search_paths_test.sh BUILD_DIR. The search paths of all
# programs: scripts/check_hardening.py.
set -euo pipefail
build=$(realpath "$1")

# Starts the program in a folder that has an invalid file for each library that the program needs.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
readelf -d "$build/bin/tern" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]$/\1/p' >"$folder/names"
grep -qx 'libhwy.so.1' "$folder/names"
(cd "$folder" && xargs -d '\n' touch <names)
if ! said=$(cd "$folder" && "$build/bin/tern" --version 2>&1); then
  echo "in a folder with a libhwy.so.1, tern says: $said" >&2
  exit 1
fi
