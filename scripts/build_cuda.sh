#!/usr/bin/env bash
# Builds everything for GPUs, with warnings as errors, and runs the tests, which skip without a GPU. Also builds the
# benchmarks of gpu_check.sh, and counts registers, instructions and launches (bench/gpu_counts.py). Without a CUDA toolkit it
# prints that and builds nothing.
#   scripts/build_cuda.sh         for all architectures, in build/cuda
#   scripts/build_cuda.sh --one   for Hopper alone, in build/cuda_gate: a third of the time
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/phases.sh

case "${1:-}" in
  '') preset=cuda ;;
  --one) preset=cuda_gate ;;
  *) echo "scripts/build_cuda.sh: unknown argument '$1'; known: --one" >&2; exit 64 ;;
esac
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ]; then
  echo 'build_cuda: nvcc not found; skips the CUDA build'
  exit 0
fi
phase install scripts/install_deps.sh
phase libzmq scripts/build_libzmq.sh --try
phase 'cuda: configure' cmake --preset "$preset" --log-level=WARNING
phase 'cuda: build' cmake --build --preset "$preset" -j "$(nproc)" --target gpu_programs gpu_bench_on_host net_steps_on_host
# What it counts is the same for all architectures.
phase 'cuda: counts' python3 -B bench/gpu_counts.py --build "build/$preset"

# Programs must start where NVIDIA's libraries are missing.
needs_no_vendor_library() { ! ldd "$1" | grep -E 'lib(cuda|cudart|cublas|cudnn|nvrtc)'; }
phase 'cuda: libraries' needs_no_vendor_library "build/$preset/tests/worker/engine/gpu_engine_test"
phase 'cuda: test' ctest --test-dir "build/$preset" -L gpu --output-on-failure
echo "cuda, all of it: $SECONDS s"
