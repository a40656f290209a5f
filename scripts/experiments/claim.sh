#!/usr/bin/env bash
# Runs one of the experiments that may contradict a paper, each over paired seeds and with two planted faults as rows:
#   linear_speedup  do the steps to a loss fall as 1 / N?       clip  is TernGrad's clip good?
#   local_steps     PQASGD: periods, levels, whose data         dgc   deep gradient compression at a ratio of 0.001
#   asynchrony      does delay compensation help tuned rates?
#   outer           p = 32 with an outer optimizer; on MNIST, whose folder is --data
#   outer_cifar10   the same with ResNet-20 on CIFAR-10, whose folder is --data
#   few_bits        how many bits, and in which layers? with the same
#   pipelining      what does OD-SGD need besides its pipeline? with the same
# on LeNet and Fashion-MNIST where nothing else is said. It stops after two hours, or at any time, and continues later,
# on another machine, too, with --record FILE: the file with the figures of finished runs (those in bench/results).
#   scripts/experiments/claim.sh NAME [OPTIONS]     --help lists them
# TERN_BUILD_DIR=FOLDER uses the programs of that build, of the target mutants, instead of building them.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/lib/programs.sh

names='linear_speedup clip local_steps dgc asynchrony outer outer_cifar10 few_bits pipelining'
name=${1:-}
if [ "$name" = --help ] || [ "$name" = -h ]; then
  sed -n '2,/^set /s/^# \?//p' "scripts/experiments/claim.sh"
  exit
fi
case " $names " in
  *" $name "*) shift ;;
  *) echo "claim.sh: the experiment is '$name', expected one of: $names" >&2; exit 64 ;;
esac
more_targets=mutants
use_programs_for "$@"
TERN_EXPERIMENT="claim.sh $name" exec python3 -B "scripts/experiments/$name.py" --build "$(dirname "$bin")" "$@"
