#!/usr/bin/env bash
# What the gate and its scripts share; to be sourced from the root of the tree.
set -euo pipefail

phases=()

# phase NAME COMMAND...: runs it and prints how long it took.
phase() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@"
  phases+=("$name: $((SECONDS - begin)) s")
  printf '== %s\n' "${phases[-1]}"
}
