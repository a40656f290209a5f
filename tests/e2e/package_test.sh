#!/usr/bin/env bash
# Checks that a package runs from another folder with an empty environment: package_test.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# Only an earlier package may be replaced: not a folder of somebody, and not one into which Tern was installed beside other things.
mkdir -p "$folder/precious" "$folder/local/bin"
touch "$folder/local/bin/tern_worker" "$folder/local/bin/another"
for kept in precious local; do
  if TERN_BUILD_DIR=$1 scripts/package.sh "$folder/$kept" 2>"$folder/said"; then
    echo "the folder $kept, which is no package, was taken for one" >&2
    exit 1
  fi
  grep -q 'is not an earlier package' "$folder/said"
  test -d "$folder/$kept"
done
test -e "$folder/local/bin/another"
if [[ $("$1/bin/tern" --version) == *"without Tern's patches"* ]]; then
  if TERN_BUILD_DIR=$1 scripts/package.sh "$folder/made" 2>"$folder/said"; then
    echo "a package with Debian's libzmq was made" >&2
    exit 1
  fi
  grep -q 'scripts/build_libzmq.sh' "$folder/said"
  echo "libzmq is Debian's here, which is refused in packages"
  exit 0
fi
TERN_BUILD_DIR=$1 scripts/package.sh "$folder/made"
mv "$folder/made" "$folder/moved"
# The package has the licences.
cmp LICENSE "$folder/moved/share/doc/tern/LICENSE"
if command -v dpkg-query >/dev/null; then
  for package in libmicrohttpd12 zlib1g libsodium23; do
    test -s "$folder/moved/share/doc/$package.copyright"
  done
fi
for file in COPYING.LESSER libzmq.copyright 1-router-refuses-ids.patch; do
  test -s "$folder/moved/share/doc/libzmq/$file"
done
# It says what it was made of, and is protected as the build is.
grep -Eq '^libpng16.so.16 libpng16-16 1[.]' "$folder/moved/share/doc/versions.txt"
grep -Eq '^libzmq.a zeromq3 4[.]' "$folder/moved/share/doc/versions.txt"
python3 -B scripts/check_hardening.py "$folder/moved"
env -i "$folder/moved/bin/tern" run "$folder/moved/share/tern/configs/lenet_fashion.yaml" --free_ports \
  --set train.steps=10 --set train.batch_total=16 --set output_dir="$folder/out"

# A second package takes the place of the first one. If making it fails, the first one stays, and nothing is left beside it.
mkdir "$folder/stubs"
printf '#!/bin/sh\nexit 1\n' >"$folder/stubs/cmake"
chmod +x "$folder/stubs/cmake"
touch "$folder/moved/of_the_first"
if PATH=$folder/stubs:$PATH TERN_BUILD_DIR=$1 scripts/package.sh "$folder/moved" 2>"$folder/said"; then
  echo 'a package was made without cmake' >&2
  exit 1
fi
test -e "$folder/moved/of_the_first"
TERN_BUILD_DIR=$1 scripts/package.sh "$folder/moved"
test ! -e "$folder/moved/of_the_first"
test -x "$folder/moved/bin/tern_worker"
test "$(echo "$folder"/moved*)" = "$folder/moved"
