#!/usr/bin/env bash
# ResNet-20 and CifarNet on CIFAR-10: ten epochs, 2 workers, fp32 and ternary codes compared with a PyTorch twin of the
# same recipe, over two and three paired seeds. Prints a table and draws loss curves. About two hours on two cores; stop
# it at any time: it continues later. The twin needs PyTorch (Debian: python3-torch), the pictures matplotlib (Debian:
# python3-matplotlib).
#   scripts/experiments/cifar10.sh CIFAR10_DIR [OPTIONS]     --help lists them; the folder has data_batch_1.bin and so on
# TERN_BUILD_DIR=FOLDER uses the programs of that build instead of building them.
set -euo pipefail
source "$(dirname "$0")/../lib/data_folder.sh"
take_data_folder 'cifar10.sh CIFAR10_DIR [OPTIONS]' data_batch_1.bin "$@"
[ "$data" = . ] || shift
cd "$(dirname "$0")/../.."
source scripts/lib/programs.sh
use_programs_for "$@"
TERN_EXPERIMENT=cifar10.sh exec python3 -B scripts/experiments/cifar10.py --tern "$bin/tern" --data "$data" "$@"
