#!/usr/bin/env bash
# Builds and runs tests under sanitizers. Passes further arguments to ctest.
#   scripts/sanitize.sh asan            addresses, leaks and undefined behaviour; every unit test
#   scripts/sanitize.sh asan_programs   the same for whole programs: the tests labelled e2e (scripts/release_check.sh)
#   scripts/sanitize.sh tsan            data races; the tests labelled tsan, which start no other processes
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/phases.sh
source scripts/lib/run_tests.sh

what=${1:-}
[ $# -eq 0 ] || shift
preset=${what%_programs}
case "$what" in
  asan | asan_programs)
    targets=(unit_tests)
    tests=(-LE '^e2e$')
    if [ "$what" = asan_programs ]; then
      targets=(all)
      tests=(-L '^e2e$')
    fi
    export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    export UBSAN_OPTIONS=print_stacktrace=1
    ;;
  tsan)
    export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.supp:halt_on_error=0:second_deadlock_stack=1"
    targets=(tsan_tests)
    tests=(-L '^tsan$')
    ;;
  *)
    echo "scripts/sanitize.sh: expected asan, asan_programs or tsan, seen '$what'" >&2
    exit 64
    ;;
esac

phase "$what: configure" cmake --preset "$preset"
phase "$what: build" cmake --build --preset "$preset" -j "$(nproc)" --target "${targets[@]}"
# Disables address randomization if possible: the ThreadSanitizer of g++ 12 does not support the memory layout of newer
# kernels.
ctest=$(command -v ctest)
if setarch "$(uname -m)" -R true 2>/dev/null; then
  ctest() { setarch "$(uname -m)" -R "$ctest" "$@"; }
fi
phase "$what: test" run_tests "$preset" "ctest${what#"$preset"}.log" --no-tests=error "${tests[@]}" "$@"
echo "$what, all of it: $SECONDS s"
