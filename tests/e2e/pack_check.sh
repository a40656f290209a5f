#!/usr/bin/env bash
# Unpacks the one file of scripts/pack.sh in two ways, and runs it in a bare root, which has the C library and nothing else:
#   pack_check.sh BUILD_DIR      as root
# There it trains a job of two CPU workers. If the build has programs for a GPU, scripts/gpu_check.sh --part 1 ends there with a
# sentence, for which the root gets bash, dirname and Debian's python3.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
root=$work/root
clean() {
  for mount in dev/null dev/urandom proc; do umount "$root/$mount" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap clean EXIT
TERN_BUILD_DIR=$1 scripts/pack.sh "$work/tern.run"

# With xz and tar alone, with python3 alone, and with neither.
tools() {
  mkdir "$work/$1"
  for tool in sh mkdir tail "${@:2}"; do ln -s "$(PATH=/usr/bin:/bin command -v "$tool")" "$work/$1"; done
}
tools by_xz xz tar
tools by_python python3
tools by_nothing
mkdir "$root"
env -i PATH="$work/by_xz" sh "$work/tern.run" "$root/tern"
env -i PATH="$work/by_python" sh "$work/tern.run" "$work/again"
diff -r "$root/tern" "$work/again"
if env -i PATH="$work/by_nothing" sh "$work/tern.run" "$work/none" 2>"$work/said"; then exit 1; fi
grep -q 'needs xz and tar, or python3' "$work/said"
if env -i PATH="$work/by_xz" sh "$work/tern.run" "$root/tern" 2>"$work/said"; then exit 1; fi
grep -q 'give a new folder' "$work/said"

# The libraries that every machine has.
source scripts/lib/libraries.sh
add() { mkdir -p "$root$(dirname "$1")" && cp -L "$1" "$root$1"; }
add_needed() { while read -r _ path; do [ -e "$root$path" ] || add "$path"; done < <(needed "$@"); }
add /lib64/ld-linux-x86-64.so.2
for path in /lib/x86_64-linux-gnu/lib*.so.*; do
  if [[ $(basename "$path") =~ $node_has ]]; then add "$path"; fi
done
mkdir -p "$root/tmp" "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
for device in null urandom; do touch "$root/dev/$device" && mount --bind "/dev/$device" "$root/dev/$device"; done
in_root() { env -i PATH=/usr/bin "$(command -v chroot)" "$root" "$@"; }

in_root /tern/bin/tern --version
python3 -B -c 'import pathlib, sys; sys.path.insert(0, "bench"); import gpu_train; gpu_train.random_digits(pathlib.Path(sys.argv[1]))' "$root/data"
in_root /tern/bin/tern run /tern/share/tern/configs/lenet_fashion.yaml --free_ports --set data.dir=/data --set workers.count=2 \
  --set train.steps=20 --set output_dir=/out
grep -q '"code": *0' "$root/out/summary.json"

if [ -x "$root/tern/scripts/gpu_check.sh" ]; then
  for tool in bash dirname python3; do add "/usr/bin/$tool"; done
  mkdir -p "$root/usr/lib"
  cp -r "/usr/lib/$(readlink /usr/bin/python3)" "$root/usr/lib"
  add_needed "$root"/usr/bin/* "$root"/usr/lib/python3*/lib-dynload/*
  code=0
  in_root /usr/bin/bash /tern/scripts/gpu_check.sh --part 1 --out /out/gpu_check >"$work/said" 2>&1 || code=$?
  cat "$work/said"
  [ "$code" -eq 78 ]
  grep -q 'gpu_check: .*: nothing to check$' "$work/said"
fi
echo "pack_check: $(stat -c %s "$work/tern.run") bytes run in a bare root"
