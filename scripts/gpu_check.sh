#!/usr/bin/env bash
# Checks Tern on this machine's GPU, in four parts of at most 9 minutes: 1: parity tests, limits of the device and training
# steps; 2: training of LeNet and ResNet-20 with a server and two workers on the one GPU, and jobs of a CPU and a GPU; 3: the
# tests under compute-sanitizer; 4: every target compared with PyTorch, if python3 has it.
# Prints a table, and writes it to out/gpu_check as Markdown and JSON. Run it with nothing else on the machine.
#   scripts/gpu_check.sh [--part 1..4] [--earlier FOLDER] [--data FOLDER] [--out FOLDER] [--quick] [--only STEP,...] [--list]
#                        [--seconds S]
# --part: one part; without it all of them. --earlier: the --out of another part, on this machine or another of its kind, whose
# rows and cuDNN plans are kept (by default those of this --out).
# --data: a folder with fashion-mnist or mnist (IDX) and cifar-10-batches-bin; missing data is reported in the table.
# Run it in a folder made by TERN_BUILD_DIR=build/cuda scripts/package.sh, or in a checkout with build/cuda
# (TERN_BUILD_DIR=FOLDER: another build). Without a GPU it prints that and exits with 78.
set -euo pipefail

if ! command -v python3 >/dev/null; then
  echo 'gpu_check: python3 not found, which runs the check' >&2
  exit 64
fi
exec python3 -B "$(dirname "$0")/../bench/gpu_check.py" "$@"
