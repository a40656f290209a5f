#!/usr/bin/env bash
# ResNet-20 and CifarNet on CIFAR-10: ten epochs, 2 workers, fp32 and ternary codes beside a PyTorch twin of the same recipe,
# two and three paired seeds; a table, and curves of the loss. About two hours on two cores; stop it at any time: it goes on
# where it was. The twin needs PyTorch (Debian: python3-torch), the pictures matplotlib (Debian: python3-matplotlib).
#   scripts/experiments/cifar10.sh CIFAR10_DIR [OPTIONS]     --help lists them; the folder has data_batch_1.bin and so on
# TERN_BUILD_DIR=FOLDER takes the programs of that build instead of building them.
set -euo pipefail
source "$(dirname "$0")/../lib/data_folder.sh"
take_data_folder 'cifar10.sh CIFAR10_DIR [OPTIONS]' data_batch_1.bin "$@"
[ "$data" = . ] || shift
cd "$(dirname "$0")/../.."
source scripts/lib/programs.sh
use_programs_for "$@"
TERN_EXPERIMENT=cifar10.sh exec python3 -B scripts/experiments/cifar10.py --tern "$bin/tern" --data "$data" "$@"
