#!/usr/bin/env bash
# Shared by the scripts that run tests. To be sourced from the root of the tree.
set -euo pipefail

# run_tests PRESET LOG ARGUMENT...: ctest with the arguments, its output also in build/PRESET/LOG.
# A test that fails beside others runs a second time, alone, because a test of real processes or clocks can fail on a machine
# that is too busy. It is named either way, and one that fails twice fails the whole.
run_tests() {
  local preset=$1 log=build/$1/$2 failed=build/$1/Testing/Temporary/LastTestsFailed.log
  shift 2
  rm -f "$failed"
  ctest --preset "$preset" -j "$(nproc)" --output-log "$log" "$@" && return
  [ -s "$failed" ] || return 8
  printf '\nfailed beside other tests, so they run again, alone:\n%s\n\n' "$(cat "$failed")"
  ctest --preset "$preset" -j 1 --rerun-failed --output-log "$log.again" || return
  { printf '\nUNSTEADY, passed only alone:\n'; grep -E ' Passed ' "$log.again"; } | tee -a "$log"
}
