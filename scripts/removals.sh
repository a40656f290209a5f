#!/usr/bin/env bash
# Proves how few files know one codec, layer, algorithm or message: takes a real one out of the tree by a kept patch,
# tests/removals/NAME.patch, counts the files that it has to change or delete, builds the programs without it, and trains.
#   scripts/removals.sh            all of it, on the committed tree, in build/removals
#   scripts/removals.sh NAME...    those patches alone; see `removals` below
#   scripts/removals.sh --count    only counts, on the tree as it is; builds nothing
# Prints a row a patch. Exit code 1: a patch does not apply or build, or a count is over its bar.
#
# CMake lists, configs/reference.yaml, docs/ and tests/ do not count, and a patch takes the tests of what it removes along
# only where the programs need that. Rows of bench/ and scripts/experiments/ that name it choose what to measure, as tests
# do; a patch leaves them.
#
# What is taken out is typical of its kind: it has all the parts that CONTRIBUTING.md's recipe names.
#   codec                 onebit: keys of its own, a memory, both directions, kernels and a form for GPUs
#   layer                 standardize: rules, CPU, kernels and a form for GPUs, ONNX. No built-in network has it: a network
#                         that has a layer is its user, as a job is
#   algorithm             psgd: the recipe's example, in rounds
#   algorithm_with_rule   softsync: every push counts at once, by a rule of the servers; a check over several keys
#   message               StateWant: a worker asks, shard 0 passes it on, another worker answers
#
# To make a patch again: take the thing out by hand in a clean worktree until the three programs build, then
#   git diff -U1 -D --no-renames >tests/removals/NAME.patch
# -U1 (-U0 if neighbouring lines change often) and -D, which leaves out the text of deleted files, keep it from going stale
# with every word that changes nearby. `git apply` takes no such deletion: this script deletes those files itself.
set -euo pipefail
cd "$(dirname "$0")/.."

removals=(codec layer algorithm algorithm_with_rule message)
declare -A bar=([codec]=10 [layer]=12 [algorithm]=6 [algorithm_with_rule]=9 [message]=8)
declare -A what=([codec]=onebit [layer]=standardize [algorithm]=psgd [algorithm_with_rule]=softsync [message]=StateWant)
# A key that asks for what was taken out: the job is refused then.
declare -A asks=([codec]=exchange.codec=onebit [algorithm]=train.algorithm=psgd
                 [algorithm_with_rule]=train.algorithm=softsync)
uncounted='(^|/)CMakeLists\.txt$|^configs/reference\.yaml$|^docs/|^tests/'

fail() { echo "scripts/removals.sh: $*" >&2; return 1; }
patch_of() { echo "$PWD/tests/removals/$1.patch"; }
all_files() { git apply --numstat "$(patch_of "$1")" | cut -f3; }
deleted_files() { git apply --summary "$(patch_of "$1")" | sed -n 's/^ delete mode [0-9]* //p'; }
counted_files() { all_files "$1" | grep -vE "$uncounted"; }

apply() {  # NAME FOLDER [--check]: with --check, changes nothing
  local name=$1 folder=$2 check=${3:-} path patch deleted=() excluded=()
  patch=$(patch_of "$name")
  mapfile -t deleted < <(deleted_files "$name")
  for path in "${deleted[@]}"; do
    [ -f "$folder/$path" ] || { fail "tests/removals/$name.patch deletes $path, which is not there"; return 1; }
    excluded+=("--exclude=$path")
  done
  git -C "$folder" apply --unidiff-zero ${check:+--check} "${excluded[@]}" "$patch" ||
    { fail "tests/removals/$name.patch does not apply: make it again, as the head of this script says"; return 1; }
  [ -n "$check" ] || for path in "${deleted[@]}"; do rm -- "$folder/$path"; done
}

row() {  # NAME RESULT
  local count files
  count=$(counted_files "$1" | wc -l)
  files=$(counted_files "$1" | paste -sd ' ')
  printf '| %s | %s | %d | %d | %s | %s |\n' "$1" "${what[$1]}" "${bar[$1]}" "$count" "$2" "$files"
  [ "$count" -le "${bar[$1]}" ] || fail "$1: $count files, more than ${bar[$1]}"
}

make_data() {  # FOLDER: 64 black images in the format of MNIST
  local part
  mkdir -p "$1"
  for part in train t10k; do
    { printf '\0\0\x08\x03\0\0\0\x40\0\0\0\x1c\0\0\0\x1c'; head -c $((64 * 28 * 28)) /dev/zero; } >"$1/$part-images-idx3-ubyte"
    { printf '\0\0\x08\x01\0\0\0\x40'; head -c 64 /dev/zero; } >"$1/$part-labels-idx1-ubyte"
  done
}

trains() {  # NAME BUILD_FOLDER: the programs start, take a job and train by it
  local bin=$2/bin program job code=0
  for program in tern tern_server tern_worker; do "$bin/$program" --help >/dev/null || return; done
  rm -rf -- "$work/out"
  job=(configs/lenet_mnist.yaml --set "data.dir=$work/data" --set "output_dir=$work/out" --set train.steps=3)
  "$bin/tern" check "${job[@]}" && "$bin/tern" run "${job[@]}" --free_ports || return
  [ -n "${asks[$1]:-}" ] || return 0
  "$bin/tern" check "${job[@]}" --set "${asks[$1]}" || code=$?
  [ "$code" -eq 78 ] || fail "tern check --set ${asks[$1]}: exit code $code, expected 78 without ${what[$1]}"
}

without() {  # NAME: builds and runs the programs without it
  git -C "$work/tree" reset --quiet --hard
  git -C "$work/tree" clean --quiet -fd
  apply "$1" "$work/tree" &&
    (cd "$work/tree" && cmake --preset cpu -B "$work/cpu" --log-level=WARNING) &&
    cmake --build "$work/cpu" -j "$(nproc)" --target tern tern_server tern_worker &&
    trains "$1" "$work/cpu"
}

only_count=
[ "${1:-}" != --count ] || { only_count=1; shift; }
chosen=("$@")
[ ${#chosen[@]} -gt 0 ] || chosen=("${removals[@]}")
for name in "${chosen[@]}"; do
  [ -n "${bar[$name]:-}" ] || { echo "scripts/removals.sh: unknown '$name'; known: --count, ${removals[*]}" >&2; exit 64; }
done

work=$PWD/build/removals
if [ -z "$only_count" ]; then
  mkdir -p "$work"
  git worktree remove --force "$work/tree" 2>/dev/null || true
  git worktree add --quiet --force --detach "$work/tree" HEAD
  trap 'git worktree remove --force "$work/tree"' EXIT
  make_data "$work/data"
fi

failed=0
printf '| removal | what | bar | files | result | which |\n| --- | --- | ---: | ---: | --- | --- |\n'
for name in "${chosen[@]}"; do
  result=applies
  if [ -n "$only_count" ]; then
    apply "$name" . --check || { result='does not apply'; failed=1; }
  else
    result='builds, trains'
    (without "$name") >"$work/$name.log" 2>&1 || { result="fails: $work/$name.log"; failed=1; }
  fi
  row "$name" "$result" || failed=1
done
[ "$failed" -eq 0 ] || exit 1
echo "removals: all ${#chosen[@]} within their bars"
