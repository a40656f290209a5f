#!/usr/bin/env bash
# Checks Tern on this machine's GPU in at most 8 minutes: parity tests, training of LeNet and ResNet-20 with a server
# and two workers on the one GPU, limits of the device, and every target, compared with PyTorch if python3 has it.
# Prints a table, and writes it to out/gpu_check as Markdown and JSON. Run it with nothing else on the machine.
#   scripts/gpu_check.sh [--data FOLDER] [--out FOLDER] [--quick] [--only STEP,...] [--list] [--seconds 460]
# --data: a folder with fashion-mnist or mnist (IDX) and cifar-10-batches-bin; missing data is reported in the table.
# Run it in a folder made by TERN_BUILD_DIR=build/cuda scripts/package.sh, or in a checkout with build/cuda
# (TERN_BUILD_DIR=FOLDER: another build). Without a GPU it prints that and exits with 78.
set -euo pipefail

if ! command -v python3 >/dev/null; then
  echo 'gpu_check: python3 not found, which runs the check' >&2
  exit 64
fi
exec python3 -B "$(dirname "$0")/../bench/gpu_check.py" "$@"
