#!/usr/bin/env bash
# Installs missing packages, builds, and runs every test. Passes arguments to ctest: scripts/test.sh -R codec
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/phases.sh
source scripts/lib/run_tests.sh

phase install scripts/install_deps.sh
phase libzmq scripts/build_libzmq.sh --try
phase configure cmake --preset cpu
phase build cmake --build --preset cpu -j "$(nproc)"
phase test run_tests cpu ctest.log "$@"
echo "all of it: $SECONDS s"
