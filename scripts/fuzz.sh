#!/usr/bin/env bash
# Fuzzes one target with libFuzzer and the address sanitizer, which needs clang.
#   scripts/fuzz.sh                     lists the targets
#   scripts/fuzz.sh TARGET [SECONDS]    fuzzes TARGET, idx for example, for SECONDS (default: 60)
# Begins with tests/fuzz/corpus/TARGET and with what earlier runs have found, in build/fuzz/corpus/TARGET. An input that
# crashes, takes more than 2 GB or more than 10 s is kept in build/fuzz/found, and the exit code is then not 0. Replay
# it with build/cpu/tests/fuzz/TARGET_fuzz FILE, and add it to the corpus with the fix. CXX=clang++-16 chooses the
# compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=$(sed -n 's/^tern_fuzz(\([a-z_]*\)_fuzz .*/\1/p' tests/fuzz/CMakeLists.txt)
if [ $# -eq 0 ]; then
  echo "$targets"
  exit 0
fi
target=$1 seconds=${2:-60}
if ! grep -qx "$target" <<<"$targets"; then
  echo "fuzz: there is no target '$target'; known:" $targets >&2
  exit 64
fi
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "fuzz: saw '$seconds' seconds, expected a whole number from 1 on" >&2
  exit 64
fi

compiler=
for candidate in ${CXX:-clang++-16 clang++}; do
  # The library of libFuzzer is in a package of its own.
  if "$candidate" -x c++ -fsanitize=fuzzer,address -o /dev/null - 2>/dev/null \
      <<<'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'; then
    compiler=$candidate
    break
  fi
done
if [ -z "$compiler" ]; then
  echo "fuzz: found no clang with libFuzzer among: ${CXX:-clang++-16 clang++}; install clang-16 and libclang-rt-16-dev" \
       '(scripts/install_deps.sh --release). Without clang, the tests run the corpora and random changes of them:' \
       "scripts/test.sh -R ${target}_fuzz" >&2
  exit 69
fi

build=build/fuzz
mkdir -p "$build/corpus/$target" "$build/found"
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DTERN_FUZZ=ON \
      -DTERN_SANITIZE=address >"$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
cmake --build "$build" --target "${target}_fuzz_libfuzzer"
program=$(find "$build" -name "${target}_fuzz_libfuzzer" -type f | head -1)
exec "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
     -artifact_prefix="$build/found/$target." "$build/corpus/$target" "tests/fuzz/corpus/$target"
