#!/usr/bin/env bash
# The first word of the experiments on data that no package has; to be sourced.
set -euo pipefail

# take_data_folder USAGE WHAT WORDS: sets `data` to the path of the folder that the first word names, or to . where that
# word is --help. Leaves the script where there is none; WHAT is a file of it, for the message.
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
    echo "${usage%% *}: there is no folder $data; it has to be the one with $what and its like" >&2
    exit 65
  fi
  data=$(realpath "$data")
}
