#!/usr/bin/env bash
# Checks that no program searches the current folder for libraries: search_paths_test.sh BUILD_DIR
set -euo pipefail
build=$(realpath "$1")

# Checks every program of the build, also those of tests. An element of a search path must be absolute or relative to the
# program ($ORIGIN); an empty element is the current folder.
programs=0
wrong=0
while IFS= read -r -d '' program; do
  [ "$(head -c 4 "$program" | tr -d '\0')" = $'\x7fELF' ] || continue
  programs=$((programs + 1))
  while IFS= read -r path; do
    if grep -qE '^$|^:|::|:$|(^|:)[^/$:]' <<<"$path"; then
      echo "$program looks for libraries in '$path', expected folders that are absolute or begin with \$ORIGIN" >&2
      wrong=$((wrong + 1))
    fi
  done < <(readelf -d "$program" | sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\]$/\2/p')
done < <(find "$build" -name CMakeFiles -prune -o -type f -perm -u+x -print0)
if [ ! -x "$build/bin/tern" ] || [ "$programs" -lt 4 ]; then
  echo "$build has $programs programs, expected bin/tern and those of the tests" >&2
  exit 1
fi

# Starts the program in a folder that has an invalid file for each library that the program needs.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
readelf -d "$build/bin/tern" | sed -nE 's/.*\(NEEDED\).*\[(.*)\]$/\1/p' >"$folder/names"
grep -qx 'libhwy.so.1' "$folder/names"
(cd "$folder" && xargs -d '\n' touch <names)
if ! said=$(cd "$folder" && "$build/bin/tern" --version 2>&1); then
  echo "in a folder with a libhwy.so.1, tern says: $said" >&2
  wrong=$((wrong + 1))
fi
[ "$wrong" -eq 0 ] || exit 1
echo "$programs programs"
