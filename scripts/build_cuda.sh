#!/usr/bin/env bash
# Builds what is for GPUs, for all architectures, with warnings as errors, in build/cuda, and runs its tests, which skip
# where there is no GPU. What it is measured by (gpu_check.sh) is built, too. Without a CUDA toolkit it says so and builds nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [ ! -x "$nvcc" ]; then
  echo 'build_cuda: no nvcc here: the CUDA side is not built'
  exit 0
fi
scripts/install_deps.sh
cmake --preset cuda --log-level=WARNING
cmake --build --preset cuda -j "$(nproc)" --target gpu_programs
ctest --test-dir build/cuda -L gpu --output-on-failure
