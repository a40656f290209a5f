#!/usr/bin/env bash
# Checks that need no build: format, layers, names, files, comments, mentions, scripts, removals. Under 30 seconds.
#   scripts/lint.sh          all of them
#   scripts/lint.sh --fix    formats the C++ files, then all of them
#   scripts/lint.sh --tidy   besides, names by clang-tidy (minutes; needs clang-tidy; configures build/tidy)
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
check() {  # NAME COMMAND...
  local name=$1 out
  shift
  if ! out=$("$@" 2>&1); then
    failed+=("$name")
    printf '== %s\n%s\n' "$name" "$out"
  fi
}

sources() {  # PATTERN...: tracked and new files, as NUL-ended paths
  git ls-files -co --exclude-standard -z -- "$@" | while IFS= read -r -d '' path; do
    if [ -f "$path" ]; then printf '%s\0' "$path"; fi
  done
}

format() { sources '*.cc' '*.h' '*.cu' '*.cuh' | xargs -0 -r -n 16 -P 2 clang-format "$@"; }

formatted() {
  local out
  out=$(format --dry-run -Werror 2>&1) && return
  grep -E ': error: ' <<<"$out" | cut -d: -f1 | sort | uniq -c | sed 's/ *\([0-9]*\) \(.*\)/\2: \1 places/'
  grep -vE '^ |: error: ' <<<"$out" | grep -iE 'invalid|cannot|not found|unknown' || true  # it did not run at all
  return 1
}

shell_scripts() {
  local path status=0
  while IFS= read -r -d '' path; do
    bash -n "$path" || status=1
    grep -q '^set -euo pipefail$' "$path" || { echo "$path: no 'set -euo pipefail'"; status=1; }
  done < <(sources '*.sh' .ci/run)
  return $status
}

tidy() {
  local out
  out=$(sources '*.cc' | xargs -0 -n 4 -P 2 clang-tidy -p build/tidy --quiet 2>/dev/null |
        grep -F '[readability-identifier-naming' | sort -u) || true  # its exit code also reports g++'s flags
  [ -z "$out" ] || { echo "$out"; return 1; }
}

case "${1:-}" in
  '' | --tidy) ;;
  --fix) format -i ;;
  *) echo "scripts/lint.sh: unknown argument '$1'; known: --fix, --tidy" >&2; exit 64 ;;
esac

check 'format (scripts/lint.sh --fix mends it)' formatted
for name in layers files names comments mentions structure algorithms; do
  check "$name" python3 -B "scripts/lint/check_$name.py"
done
check 'the checks themselves' python3 -B scripts/lint/self_test.py
check 'shell scripts' shell_scripts
check 'removals' scripts/removals.sh --count
if [ "${1:-}" = --tidy ]; then
  command -v clang-tidy >/dev/null || { echo 'no clang-tidy: apt-get install clang-tidy' >&2; exit 64; }
  check 'configure' cmake --preset tidy
  check 'generated headers' cmake --build --preset tidy --target tern_proto
  check 'names by clang-tidy' tidy
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf 'lint: %d checks failed:\n' ${#failed[@]}
  printf '  %s\n' "${failed[@]}"
  exit 1
fi
echo "lint: clean in $SECONDS s"
