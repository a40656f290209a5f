#!/usr/bin/env bash
# What Tern does on this machine's GPU, in at most 8 minutes: parity tests, LeNet and ResNet-20 trained with server and two
# workers on the one GPU, the device's ceilings, and every target with PyTorch beside it where python3 has it. It ends with
# a table, which is in out/gpu_check too, as Markdown and as JSON. Alone on the machine.
#   scripts/gpu_check.sh [--data FOLDER] [--out FOLDER] [--quick] [--only STEP,...] [--list] [--seconds 460]
# --data: a folder with fashion-mnist or mnist (IDX) and cifar-10-batches-bin; what is missing is a row that says so.
# From the folder that TERN_BUILD_DIR=build/cuda scripts/package.sh makes, or from a checkout with build/cuda
# (TERN_BUILD_DIR=FOLDER: another build). Without a GPU it says so and ends with 78.
set -euo pipefail

if ! command -v python3 >/dev/null; then
  echo 'gpu_check: there is no python3 here, which runs it' >&2
  exit 64
fi
exec python3 -B "$(dirname "$0")/../bench/gpu_check.py" "$@"
