#!/usr/bin/env bash
# A folder with the programs and the shared libraries that a bare node lacks: copy it anywhere on an x86-64 Linux with
# glibc 2.36 or newer (Debian 12, Ubuntu 24.04 ...), start bin/tern there. The C library is the node's, and so are CUDA's.
#   scripts/package.sh [FOLDER]     (out/tern) has to be new or a package of before
# TERN_BUILD_DIR=build/cuda takes the programs of that build instead of building them, and all that scripts/gpu_check.sh
# needs, which is then in the folder, too.
set -euo pipefail
cd "$(dirname "$0")/.."

to=$(realpath -m "${1:-out/tern}")
if [ -e "$to" ] && [ ! -e "$to/bin/tern_worker" ]; then
  echo "package: $to is there and is no package of before; name a folder that is new" >&2
  exit 64
fi
source scripts/lib/programs.sh
use_programs

# The node's: the C library's own, and what comes with a GPU's driver and toolkit.
node_has='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libanl|libutil)\.so'
node_has+='|^lib(cuda|cudart|cublas|cublasLt|cudnn[a-z_]*|nvrtc|nvJitLink)\.so'

# Those of the libraries that it needs, as "NAME PATH".
needed() { ldd "$@" | awk '$2 == "=>" {print $1, $3}' | sort -u; }

# The package that a file is of, or nothing. Some packages say /lib where the file is in /usr/lib.
package_of() {
  { dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null || true; } | head -n 1 | cut -d: -f1
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
while read -r name path; do
  [[ $name =~ $node_has ]] && continue
  if [ "$path" = not ]; then
    echo "package: $name is needed, and is not on this machine" >&2
    exit 1
  fi
  cp -L "$path" "$to/lib/$name"
  package=$(package_of "$(realpath "$path")")
  if [ -n "$package" ] && [ -r "/usr/share/doc/$package/copyright" ]; then
    cp "/usr/share/doc/$package/copyright" "$to/share/doc/$package.copyright"
  fi
done < <(needed "${programs[@]}")

# Nothing of this machine's but what every node has.
while read -r name path; do
  if [[ ! $name =~ $node_has ]] && [[ $path != "$to"/* ]]; then
    echo "package: $name comes from $path, expected it in $to/lib" >&2
    exit 1
  fi
done < <(env -u LD_LIBRARY_PATH ldd "${programs[@]}" | awk '$2 == "=>" {print $1, $3}' | sort -u)
echo "package: $to, $(du -sh "$to" | cut -f1), $(find "$to/lib" -type f | wc -l) libraries$check"
