#!/usr/bin/env bash
# Checks that a package runs from another folder with an empty environment: package_test.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TERN_BUILD_DIR=$1 scripts/package.sh "$folder/made"
mv "$folder/made" "$folder/moved"
# The package has the licences.
cmp LICENSE "$folder/moved/share/doc/tern/LICENSE"
if command -v dpkg-query >/dev/null; then
  for package in libzmq5 zlib1g libcom-err2; do
    test -s "$folder/moved/share/doc/$package.copyright"
  done
fi
env -i "$folder/moved/bin/tern" run "$folder/moved/share/tern/configs/lenet_fashion.yaml" --free_ports \
  --set train.steps=10 --set train.batch_total=16 --set output_dir="$folder/out"

mkdir "$folder/precious"
if TERN_BUILD_DIR=$1 scripts/package.sh "$folder/precious" 2>"$folder/said"; then
  echo 'a folder that is no package was taken for one' >&2
  exit 1
fi
grep -q 'is not an earlier package' "$folder/said"
