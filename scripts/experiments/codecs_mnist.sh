#!/usr/bin/env bash
# Compares every codec with synchronous SGD, and PQASGD with the levels of its paper, with fp32 in one table: LeNet on
# MNIST, 4 workers, total batch 64, 3,000 steps, five paired seeds. About two hours on two cores; stop it at
# any time: it continues later.
#   scripts/experiments/codecs_mnist.sh MNIST_DIR [OPTIONS]     --help lists them
# TERN_BUILD_DIR=FOLDER uses the programs of that build instead of building them.
set -euo pipefail
source "$(dirname "$0")/../lib/data_folder.sh"
take_data_folder 'codecs_mnist.sh MNIST_DIR [OPTIONS]' train-images-idx3-ubyte.gz "$@"
[ "$data" = . ] || shift
cd "$(dirname "$0")/../.."
source scripts/lib/programs.sh
use_programs_for "$@"
TERN_EXPERIMENT=codecs_mnist.sh exec python3 -B scripts/experiments/every_codec.py --tern "$bin/tern" --data "$data" "$@"
