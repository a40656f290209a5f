#!/usr/bin/env bash
# Runs a compiler's command after removing its output. A compiler cache would take an old precompiled header for an input,
# in place of the headers in it, and could return another one that was made from the same old one.
set -euo pipefail
previous=
for argument in "$@"; do
  [ "$previous" != -o ] || rm -f "$argument"
  previous=$argument
done
exec "$@"
