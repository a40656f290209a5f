#!/usr/bin/env bash
# The slow checks before a release that the gate (.ci/run) omits. Installs what it needs (packages, and those of Python in
# build/release_python and build/kubernetes_python), takes hours, and continues after a failure.
#   scripts/release_check.sh            all checks
#   scripts/release_check.sh CHECK...   those alone; see `checks` below
# Writes a table to out/release_check/DATE.md, and a log of each check.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/phases.sh

# Compiles each file by itself, which shows missing includes, with asserts. Runs all tests.
each_file() {
  cmake --preset dev && cmake --build --preset dev -j "$(nproc)" && ctest --preset dev -j "$(nproc)"
}

# Runs the tests of processes with all of their cases, and ten times as many schedules; the gate runs some of each.
thorough() {
  # The build folder remembers the option: it is taken back however this ends, also by Ctrl-C. A check has a shell of its own.
  trap 'cmake --preset cpu -D TERN_THOROUGH=OFF' EXIT
  cmake --preset cpu -D TERN_THOROUGH=ON && cmake --build --preset cpu -j "$(nproc)" || return
  TERN_SIM_TIMES=10 ctest --preset cpu -j "$(nproc)" -R '^(sim|e2e_.*)$' --timeout 3600
}

# Builds everything with another compiler and runs all tests.
clang() {
  cmake --preset clang && cmake --build --preset clang -j "$(nproc)" && ctest --preset clang -j "$(nproc)"
}

names() { scripts/lint.sh --tidy; }

# Builds for all GPU architectures, and counts the instructions of kernels; the gate builds one.
cuda() {
  [ -x "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)" ] || { echo 'no CUDA toolkit here'; return 77; }
  local python=build/release_python
  [ -x "$python/bin/python3" ] || python3 -m venv "$python"
  "$python/bin/pip" install --quiet 'nvidia-cuda-nvdisasm<14' || return
  PATH="$PWD/$python/bin:$PATH" scripts/build_cuda.sh
}

# Builds the programs without one codec, layer, algorithm and message; the gate only counts the files that this takes.
removals() { scripts/removals.sh; }

# Runs whole programs under the sanitizers; the gate runs only unit tests.
asan_programs() { scripts/sanitize.sh asan_programs; }

# Runs the tests that need PyTorch and ONNX Runtime; none may be skipped.
torch() {
  local python=build/release_python
  [ -x "$python/bin/python3" ] || python3 -m venv "$python"
  "$python/bin/pip" install --quiet numpy torch onnx onnxruntime || return
  cmake --preset cpu && cmake --build --preset cpu -j "$(nproc)" || return
  PATH="$PWD/$python/bin:$PATH" ctest --preset cpu -R '^torch_' --no-tests=error --output-log build/cpu/ctest_torch.log || return
  ! grep -E 'Skipped' build/cpu/ctest_torch.log
}

# Builds the programs for the two checks of packages.
programs() { cmake --preset cpu && cmake --build --preset cpu -j "$(nproc)" --target tern tern_server tern_worker; }

# Installs the Debian package into a bare root, trains, and purges it.
deb() { programs && tests/e2e/deb_check.sh build/cpu; }

# Runs the one file of a build, and of one for a GPU if there is one, in a bare root.
pack() {
  programs && tests/e2e/pack_check.sh build/cpu || return
  [ ! -x build/cuda_gate/bench/gpu_bench ] || tests/e2e/pack_check.sh build/cuda_gate
}

# Trains in a container of the OCI image.
image() { programs && tests/e2e/image_check.sh build/cpu; }

# Watches a job with Prometheus, a browser and a terminal; no test may be skipped.
watching() {
  cmake --preset cpu && cmake --build --preset cpu -j "$(nproc)" || return
  ctest --preset cpu -R '^e2e_page$' -V --no-tests=error --output-log build/cpu/ctest_page.log || return
  ! grep -E 'skipped' build/cpu/ctest_page.log
}

# Runs the test of a cluster's manager, which may not be skipped.
manager() {
  TERN_RELEASE_CHECK=1 ctest --preset cpu -R "^e2e_$1\$" -V --no-tests=error --output-log "build/cpu/ctest_$1.log" || return
  ! grep -E 'Skipped|skipped' "build/cpu/ctest_$1.log"
}

# Disturbs jobs under a whole Slurm of two nodes.
slurm() { programs && manager slurm; }

# Boots a systemd that runs the units.
systemd() {
  programs && python3 -B tests/e2e/systemd_test.py . build/cpu --make_debian && manager systemd
}

# Holds the objects of Kubernetes against their schemas, and runs their pods in network namespaces.
kubernetes() {
  local python=build/kubernetes_python
  [ -x "$python/bin/python3" ] || python3 -m venv "$python"
  "$python/bin/pip" install --quiet kubernetes-validate kubeflow-trainer-api cloudcoil-models-prometheus-operator || return
  programs && PATH="$PWD/$python/bin:$PATH" manager kubernetes
}

checks=(each_file thorough clang names cuda removals asan_programs torch watching deb pack image slurm systemd kubernetes)
chosen=("$@")
[ ${#chosen[@]} -gt 0 ] || chosen=("${checks[@]}")
for check in "${chosen[@]}"; do
  case " ${checks[*]} " in
    *" $check "*) ;;
    *) echo "scripts/release_check.sh: unknown check '$check'; known: ${checks[*]}" >&2; exit 64 ;;
  esac
done

out=out/release_check/$(date -u +%Y-%m-%dT%H-%M-%SZ)
mkdir -p "$out"
phase install scripts/install_deps.sh --release
phase libzmq scripts/build_libzmq.sh
{
  printf 'Commit %s%s, %s, %s cores\n\n' "$(git rev-parse --short HEAD)" \
    "$([ -z "$(git status --porcelain)" ] || echo ' with changes')" "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)" "$(nproc)"
  printf '| check | result | seconds | its last words |\n| --- | --- | ---: | --- |\n'
} >"$out.md"
failed=0
for check in "${chosen[@]}"; do
  begin=$SECONDS
  echo "== $check, in $out/$check.log"
  code=0
  ("$check") >"$out/$check.log" 2>&1 || code=$?
  case $code in
    0) result=holds ;;
    77) result=skipped ;;
    *) result="fails ($code)"; failed=$((failed + 1)) ;;
  esac
  words=$(grep -E 'tests passed|lint: |removals: |all of it|no CUDA|^(deb|pack|image)_check: ' "$out/$check.log" | tail -n 1 || true)
  printf '| %s | %s | %d | %s |\n' "$check" "$result" $((SECONDS - begin)) "${words//|/ }" >>"$out.md"
done
cat "$out.md"
echo "$out.md, after $((SECONDS / 60)) min"
[ "$failed" -eq 0 ]
