#!/usr/bin/env bash
# No program looks for its libraries where it is started: search_paths_test.sh BUILD_DIR
set -euo pipefail
build=$(realpath "$1")

# Every program of the build, those of the tests among them. An element of a search path is absolute or counts from the
# program ($ORIGIN); an empty one is the current folder.
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

# Beside a file by the name of each library that it needs, which is none, it starts as elsewhere.
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
