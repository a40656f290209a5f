#!/usr/bin/env bash
# Measures every target that this machine can measure. Prints requirement, goal, limit, measured value and verdict, and
# writes them as JSON to out/bench. Takes about two hours, of which attacks are one; run it as root (for network
# namespaces), with nothing else on the machine.
#   scripts/bench.sh [--only kernels,bytes,link,attacks,...] [--quick] [--out FOLDER]
# Measures other programs for comparison if they are installed: iperf3, and PyTorch with gloo (python3-torch).
# TERN_BUILD_DIR=FOLDER uses the programs of that build instead of building them.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/programs.sh

more_targets='attacker echo speed_targets net_steps peak simulator'
use_programs_for "$@"
build=$(dirname "$bin")
exec python3 -B bench/all.py "$build" "$@"
