#!/usr/bin/env bash
# ResNet-20, trained on five classes of CIFAR-10, learns the other five from 1,000 images: fine-tuned with a new head, and
# from random weights, over five paired seeds. Prints a table with the gain and its 95 % interval. About ten minutes on two
# cores; stop it at any time: it continues later. Exit code 1 if the interval has no gain.
#   scripts/experiments/fine_tuning.sh CIFAR10_DIR [OPTIONS]    --help lists them; the folder has data_batch_1.bin and so on
# TERN_BUILD_DIR=FOLDER uses the programs of that build instead of building them.
set -euo pipefail
source "$(dirname "$0")/../lib/data_folder.sh"
take_data_folder 'fine_tuning.sh CIFAR10_DIR [OPTIONS]' data_batch_1.bin "$@"
[ "$data" = . ] || shift
cd "$(dirname "$0")/../.."
source scripts/lib/programs.sh
use_programs_for "$@"
TERN_EXPERIMENT=fine_tuning.sh exec python3 -B scripts/experiments/fine_tuning.py --tern "$bin/tern" --data "$data" "$@"
