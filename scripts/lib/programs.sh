#!/usr/bin/env bash
# Where the programs are; to be sourced from the root of the tree.
set -euo pipefail

# use_programs: sets `bin` to a folder with tern, tern_server and tern_worker, which it builds in build/cpu, what they
# need installed first. With TERN_BUILD_DIR set it takes the programs of that build instead, and builds nothing.
use_programs() {
  local program
  if [ -n "${TERN_BUILD_DIR:-}" ]; then
    bin=$(realpath -m "$TERN_BUILD_DIR")/bin
  else
    bin=$PWD/build/cpu/bin
    echo '== install what is missing'
    scripts/install_deps.sh
    echo '== configure and build the programs in build/cpu'
    cmake --preset cpu --log-level=WARNING
    cmake --build --preset cpu -j "$(nproc)" --target tern tern_server tern_worker
  fi
  for program in tern tern_server tern_worker; do
    if [ ! -x "$bin/$program" ]; then
      echo "there is no $bin/$program: TERN_BUILD_DIR has to be a build folder with the three programs" >&2
      exit 64
    fi
  done
}

# use_programs_for OPTIONS: the same for an experiment, whose programs are not needed only to look at it.
use_programs_for() {
  case " $* " in
    *' --help '* | *' -h '* | *' --dry'* | *' --table'*) bin=build/cpu/bin ;;
    *) use_programs ;;
  esac
}
