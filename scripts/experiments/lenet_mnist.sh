#!/usr/bin/env bash
# Figure 3 of the TernGrad paper as a table: LeNet on MNIST, total batch 64, 10,000 steps, fp32 and ternary gradients
# with 1, 2, 4 and 8 workers (momentum SGD) and 2 (vanilla SGD), over paired seeds. About an hour and a half on two cores; stop it
# at any time: it continues later.
#   scripts/experiments/lenet_mnist.sh MNIST_DIR [--with_64] [OPTIONS]     --help lists them
# MNIST_DIR has the four files, each as it is or with .gz. --with_64 adds 64 workers: 7 GB of memory.
# TERN_BUILD_DIR=FOLDER uses the programs of that build instead of building them.
set -euo pipefail
source "$(dirname "$0")/../lib/data_folder.sh"
take_data_folder 'lenet_mnist.sh MNIST_DIR [--with_64] [OPTIONS]' train-images-idx3-ubyte.gz "$@"
[ "$data" = . ] || shift
cd "$(dirname "$0")/../.."
source scripts/lib/programs.sh

momentum='train.optimizer.name=momentum train.schedule.learning_rate=0.01'
sgd='train.optimizer.name=sgd train.schedule.learning_rate=0.1'
cases=(
  --case "momentum/2 5 workers.count=2 $momentum"
  --case "sgd/2 5 workers.count=2 $sgd"
  --case "momentum/8 5 workers.count=8 $momentum"
  --case "momentum/1 3 workers.count=1 $momentum"
  --case "momentum/4 3 workers.count=4 $momentum"
)
options=()
seeds_of_64=+3  # shown only if it was run before
for word in "$@"; do
  case "$word" in
    --with_64 | --with-64) seeds_of_64=3 ;;
    *) options+=("$word") ;;
  esac
done
# Many workers share a core, so allow them more time.
patient='faults.start_timeout_s=600 faults.suspect_after_s=30 faults.dead_after_s=60'
cases+=(--case "momentum/64 $seeds_of_64 workers.count=64 $momentum $patient")

use_programs_for "${options[@]}"
TERN_EXPERIMENT=lenet_mnist.sh exec python3 -B scripts/experiments/paired.py \
  --title 'LeNet on MNIST (figure 3 of the TernGrad paper): optimizer/workers, fp32 and ternary' \
  --folder out/experiments/lenet_mnist --job configs/lenet_mnist.yaml --tern "$bin/tern" --full_steps 10000 \
  --bar gap_upper=0.22 "${cases[@]}" --set "data.dir=$data" "${options[@]}"
