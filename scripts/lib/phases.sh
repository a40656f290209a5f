#!/usr/bin/env bash
# Shared by the gate and its scripts. To be sourced from the root of the tree.
set -euo pipefail

phases=()

# phase NAME COMMAND...: runs the command and prints how long it took.
phase() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@"
  phases+=("$name: $((SECONDS - begin)) s")
  printf '== %s\n' "${phases[-1]}"
}
