#!/usr/bin/env bash
# From a fresh Debian 12 to a network trained over ternary gradients: installs what is missing, builds the programs,
# trains LeNet on Fashion-MNIST with one server and two workers.
#   scripts/quickstart.sh                          all of it: 3,000 steps
#   scripts/quickstart.sh --set train.steps=200    arguments go to `tern run`
# TERN_BUILD_DIR=FOLDER takes the programs of that build: nothing is installed or built.
set -euo pipefail
case " $* " in *' --help '* | *' -h '*) sed -n '2,/^set /s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."
source scripts/lib/programs.sh

use_programs
echo "== train: tern run configs/lenet_fashion.yaml --free_ports $*"
exec "$bin/tern" run configs/lenet_fashion.yaml --free_ports "$@"
