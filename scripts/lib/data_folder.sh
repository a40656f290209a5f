#!/usr/bin/env bash
# Parses the data folder, the first argument of experiments whose data is not in a package. To be sourced.
set -euo pipefail

# take_data_folder USAGE FILE ARGUMENTS...: sets `data` to the folder in the first argument, or to . if that is --help.
# Exits if the folder does not exist; FILE is a file in it, for the message.
take_data_folder() {
  local usage=$1 what=$2
  shift 2
  if [ $# -eq 0 ] || { [ "${1#-}" != "$1" ] && [ "$1" != --help ]; }; then
    echo "usage: $usage; --help lists them" >&2
    exit 64
  fi
  data=.
  [ "$1" != --help ] || return 0
  data=$1
  if [ ! -d "$data" ]; then
    echo "${usage%% *}: there is no folder $data; expected the folder with $what and the other files" >&2
    exit 65
  fi
  data=$(realpath "$data")
}
