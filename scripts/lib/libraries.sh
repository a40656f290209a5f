#!/usr/bin/env bash
# What shared libraries a file needs, and whose they are. To be sourced.
set -euo pipefail

# Libraries of the target machine: the C library. Programs open those of a GPU while they run.
node_has='^(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libanl|libutil)\.so'

# Prints the libraries that a file needs, as "NAME PATH".
needed() { ldd "$@" | awk '$2 == "=>" {print $1, $3}' | sort -u; }

# Prints the package of a file, or nothing. Some packages list /lib for files in /usr/lib.
package_of() {
  { dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null || true; } | head -n 1 | cut -d: -f1
}
