#!/usr/bin/env bash
# What test.sh and sanitize.sh share; to be sourced from the root of the tree.
set -euo pipefail

# phase NAME COMMAND...: runs it and prints how long it took.
phase() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@"
  printf '== %s: %d s\n' "$name" $((SECONDS - begin))
}
