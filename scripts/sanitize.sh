#!/usr/bin/env bash
# Builds and runs the tests under sanitizers. Further arguments go to ctest.
#   scripts/sanitize.sh asan   addresses, leaks and undefined behaviour; every test
#   scripts/sanitize.sh tsan   threads; the tests labelled tsan, which start no other processes
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/phases.sh

preset=${1:-}
[ $# -eq 0 ] || shift
# Little optimization and line tables alone build in half the time and run fast enough; asserts stay on.
flags='-O1 -g1'
targets=()
tests=()
case "$preset" in
  asan)
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
  tsan)
    export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp:halt_on_error=0:second_deadlock_stack=1"
    tests=(-L '^tsan$')
    ;;
  *)
    echo "scripts/sanitize.sh: expected asan or tsan, seen '$preset'" >&2
    exit 64
    ;;
esac

phase "$preset: configure" cmake --preset "$preset" -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="$flags"
if [ "$preset" = tsan ]; then
  # Only what those tests need: test NAME is program NAME_test.
  while read -r name; do targets+=("${name}_test"); done < <(
    ctest --preset tsan -N "${tests[@]}" | sed -n 's/^ *Test *#[0-9]*: //p')
  [ ${#targets[@]} -gt 0 ] || { echo 'scripts/sanitize.sh: no test is labelled tsan' >&2; exit 1; }
  targets=(--target "${targets[@]}")
fi
phase "$preset: build" cmake --build --preset "$preset" -j "$(nproc)" "${targets[@]}"
# Without address randomization, where that may be switched off: ThreadSanitizer of g++ 12 stops at mappings that
# newer kernels place further apart than it knows.
fixed=()
if setarch "$(uname -m)" -R true 2>/dev/null; then fixed=(setarch "$(uname -m)" -R); fi
phase "$preset: test" "${fixed[@]}" \
  ctest --preset "$preset" -j "$(nproc)" --output-log "build/$preset/ctest.log" "${tests[@]}" "$@"
echo "$preset, all of it: $SECONDS s"
