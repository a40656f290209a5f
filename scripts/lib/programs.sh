#!/usr/bin/env bash
# Finds or builds the programs. To be sourced from the root of the tree.
set -euo pipefail

# use_programs: installs missing packages, builds tern, tern_server, tern_worker and libtern.so in build/cpu, and sets
# `bin` to the folder of the programs. If TERN_BUILD_DIR is set, it uses the programs of that build and builds nothing.
# Builds the targets in `more_targets`, too.
use_programs() {
  local program
  if [ -n "${TERN_BUILD_DIR:-}" ]; then
    bin=$(realpath -m "$TERN_BUILD_DIR")/bin
  else
    bin=$PWD/build/cpu/bin
    echo '== install what is missing'
    scripts/install_deps.sh
    scripts/build_libzmq.sh --try
    echo '== configure and build the programs in build/cpu'
    cmake --preset cpu --log-level=WARNING
    cmake --build --preset cpu -j "$(nproc)" --target tern tern_server tern_worker tern_abi ${more_targets:-}
  fi
  for program in tern tern_server tern_worker; do
    if [ ! -x "$bin/$program" ]; then
      echo "there is no $bin/$program: TERN_BUILD_DIR must be a build folder with the three programs" >&2
      exit 64
    fi
  done
}

# use_programs_for OPTIONS: the same for an experiment, unless the options only list runs or print tables.
use_programs_for() {
  case " $* " in
    *' --help '* | *' -h '* | *' --dry'* | *' --table'*) bin=build/cpu/bin ;;
    *) use_programs ;;
  esac
}
