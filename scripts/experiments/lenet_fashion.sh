#!/usr/bin/env bash
# Measures the accuracy that ternary gradients cost LeNet on Fashion-MNIST: seeds 1 to 5, each with codec fp32 and
# ternary on the same batches. Prints accuracy, gap, times and byte ratios, and compares them with the requirements.
# Stop it at any time: it continues later.
#   scripts/experiments/lenet_fashion.sh [OPTIONS]     --help lists them
# TERN_BUILD_DIR=FOLDER uses the programs of that build instead of building them.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/lib/programs.sh

use_programs_for "$@"
TERN_EXPERIMENT=lenet_fashion.sh exec python3 -B scripts/experiments/paired.py \
  --title 'LeNet on Fashion-MNIST, 2 workers: fp32 and ternary' \
  --folder out/experiments/lenet_fashion --job configs/lenet_fashion.yaml --tern "$bin/tern" --full_steps 3000 \
  --case 'momentum/2 5' \
  --bar accuracy=0.880 --bar gap=0.5 --bar train_s=90 --bar up_ratio=20.2 --bar down_ratio=10 \
  "$@"
