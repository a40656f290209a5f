#!/usr/bin/env bash
# Installs the Debian package into a bare root of Debian, trains its first job to the end, and purges it:
#   deb_check.sh BUILD_DIR      as root; needs lintian and mmdebstrap, and downloads packages
# Our own time, downloads apart, is limited to 90 s. Nothing of the package may be left after the purge.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
root=$work/root
clean() {
  local mount
  for mount in dev/null dev/urandom proc; do umount "$root/$mount" 2>/dev/null || true; done
  rm -rf --one-file-system "$work"
}
trap clean EXIT
export DEBFULLNAME='Tern developers' DEBEMAIL=${DEBEMAIL:-developers@tern.org}
deb=$(TERN_BUILD_DIR=$1 scripts/deb.sh "$work/deb" | tail -n 1)
lintian --fail-on error "$deb"

mmdebstrap --quiet --variant=apt --mode=root bookworm "$root"
mount -t proc proc "$root/proc"
touch "$root/dev/null" "$root/dev/urandom"
mount --bind /dev/null "$root/dev/null"
mount --bind /dev/urandom "$root/dev/urandom"
cp "$deb" "$root/tmp/tern.deb"
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
in_root() { env -i ${http_proxy:+http_proxy="$http_proxy"} PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
install=(apt-get install -q -y --no-install-recommends /tmp/tern.deb dataset-fashion-mnist)
{ in_root apt-get update && in_root "${install[@]}" --download-only; } >"$work/apt.log" 2>&1 || { tail "$work/apt.log" >&2; exit 1; }

files() { (cd "$root" && find . -xdev -path ./proc -prune -o -path ./tmp -prune -o -path ./var/log -prune -o -path ./var/cache -prune -o -print | LC_ALL=C sort); }
begin=$SECONDS
in_root "${install[@]}" >>"$work/apt.log" 2>&1 || { tail "$work/apt.log" >&2; exit 1; }
installed=$((SECONDS - begin))
in_root bash -c 'cd /tmp && tern run /usr/share/tern/configs/lenet_fashion.yaml' >"$work/run.log" || { tail "$work/run.log" >&2; exit 1; }
took=$((SECONDS - begin))
grep accuracy "$work/run.log"
for page in man1/tern.1 man1/tern-run.1 man1/tern_server.1 man1/tern_worker.1 man5/tern-job.5; do
  test -s "$root/usr/share/man/$page.gz"
done

# What the documents tell you to copy, by the documents' own links.
for file in systemd/keys/server.conf systemd/keys/worker.conf slurm/tern.sbatch; do
  test -s "$root/usr/share/doc/tern/docs/../deploy/$file"
done

# Without the package, but with the libraries that it needs, the root has the same files.
in_root dpkg --purge tern >/dev/null
files >"$work/purged"
if grep -E '/tern' "$work/purged"; then
  echo 'deb_check: the purge left these files' >&2
  exit 1
fi
echo "deb_check: $(basename "$deb"), $(stat -c %s "$deb") bytes; from nothing to a trained LeNet in $took s, installation $installed s"
[ "$took" -le 90 ] || { echo "deb_check: took $took s, expected at most 90 s" >&2; exit 1; }
