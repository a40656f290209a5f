#!/usr/bin/env bash
# Soaks any job in faults of all kinds, compares its final weights with those of an undisturbed run, and prints how long
# recovery took by kind of fault. docs/RECOVERY.md has measured tables. As root, each daemon gets a network namespace.
#   scripts/drill.sh --job FILE [--job FILE]... [--seconds N] [--seed N] [--faults KIND,...] [--json FILE]; --help
#   scripts/drill.sh --keys [--steps N] [--ranks N]: instead, strangers attack a job with keys (as root, 5 minutes)
# TERN_BUILD_DIR=FOLDER uses the programs of that build instead of building them.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/programs.sh

use_programs_for "$*"
drill=drill.py
case " $* " in *' --keys '*) drill=keys.py ;; esac
exec python3 -B "scripts/drill/$drill" "$bin" "$@"
