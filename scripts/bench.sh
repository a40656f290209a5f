#!/usr/bin/env bash
# Every target that this machine can measure: what is asked, the goal, the limit, what was measured and a verdict, also
# as JSON in out/bench. About an hour; run it alone on the machine, as root (network namespaces).
#   scripts/bench.sh [--only kernels,bytes,server_cpu,link,odsgd,stragglers,networks,predict] [--quick] [--out FOLDER]
# Peers are measured beside Tern where they are installed: iperf3, and PyTorch with gloo (python3-torch).
# TERN_BUILD_DIR=FOLDER takes the programs of that build instead of building them.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/programs.sh

use_programs
build=$(dirname "$bin")
if [ -z "${TERN_BUILD_DIR:-}" ]; then
  cmake --build --preset cpu -j "$(nproc)" --target echo speed_targets net_steps peak
fi
exec python3 -B bench/all.py "$build" "$@"
