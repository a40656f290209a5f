#!/usr/bin/env bash
# Makes a Debian package of the programs, man pages, completion, jobs and systemd units, for the Debian release on which
# it is made.
#   scripts/deb.sh [FOLDER]     writes FOLDER/tern_VERSION_ARCHITECTURE.deb (out/deb), and prints its path last
# TERN_BUILD_DIR=build/cpu uses the programs of that build instead of building them. DEBFULLNAME and DEBEMAIL name its
# maintainer; without them git's user is.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/lib/programs.sh

to=$(realpath -m "${1:-out/deb}")
command -v dpkg-shlibdeps >/dev/null || { echo 'deb: dpkg-shlibdeps is missing; install dpkg-dev' >&2; exit 69; }
git rev-parse HEAD >/dev/null 2>&1 || { echo "deb: $PWD is no clone of git, which has the version and the date of the package; make it in a clone" >&2; exit 69; }
if [ -z "${TERN_BUILD_DIR:-}" ]; then
  scripts/install_deps.sh
  scripts/build_libzmq.sh
fi
use_programs
if [[ $("$bin/tern" --version) != *"with Tern's patches"* ]]; then
  echo "deb: the programs in $bin are linked with Debian's libzmq; run scripts/build_libzmq.sh, configure and build again (cmake --preset, cmake --build --preset)" >&2
  exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root

# A release has its number; a commit between releases sorts before the release that it leads to.
upstream_version() {
  local number
  number=$(sed -n 's/^project(tern VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
  if git describe --exact-match --tags --match "v$number" >/dev/null 2>&1; then
    echo "$number"
  else
    echo "$number~git$(git show -s --format=%cd --date=format:%Y%m%d.%H%M%S HEAD).$(git rev-parse --short=8 HEAD)"
  fi
}
version=$(upstream_version)-1
architecture=$(dpkg --print-architecture)
date=$(git show -s --format=%cD HEAD)
# Whoever makes the package maintains it.
maintainer="${DEBFULLNAME:-$(git config user.name || id -un)} <${DEBEMAIL:-$(git config user.email || echo "$(id -un)@$(hostname -f)")}>"

# Programs: stripped, and without the path on which a portable folder finds its libraries.
install_programs() {
  local build program
  build=$(dirname "$bin")
  DESTDIR=$root cmake --install "$build" --prefix /usr --strip >/dev/null
  for program in "$root"/usr/bin/*; do
    printf 'file(RPATH_REMOVE FILE "%s")\n' "$program" >"$work/rpath.cmake"
    cmake -P "$work/rpath.cmake"
  done
}

install_units() {
  install -D -m 644 -t "$root/lib/systemd/system" deploy/systemd/*.service
  install -d "$root/etc/tern"
}

install_documents() {
  local doc=$root/usr/share/doc/tern
  rm -f "$doc/LICENSE"
  sed "s/@YEAR@/$(git show -s --format=%cd --date=format:%Y HEAD)/" deploy/debian/copyright >"$doc/copyright"
  gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
  printf 'tern (%s) unstable; urgency=medium\n\n  * Made by scripts/deb.sh; changelog.gz has what is new.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$date" | gzip -9n >"$doc/changelog.Debian.gz"
  install -m 644 -t "$doc" README.md SECURITY.md
  install -D -m 644 -t "$doc/docs" docs/*.md
  # For the documents' links.
  ln -s ../../tern/configs ../../tern/deploy "$doc"
  install -m 644 -t "$doc" CONTRIBUTING.md
  install -D -m 644 -t "$doc/bench/results" bench/results/*.md
  install -D -m 644 -t "$doc/proto" proto/wire.proto
  install -D -m 644 -t "$doc/python/examples" python/examples/*
  find "$root/usr/share/man" -type f -exec gzip -9n {} +
  # Where Debian's zsh looks for what packages bring.
  mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
}

# dpkg-shlibdeps names the packages of the libraries; it wants a debian/control beside it.
dependencies() {
  mkdir -p "$work/debian"
  printf 'Source: tern\n\nPackage: tern\nArchitecture: any\n' >"$work/debian/control"
  (cd "$work" && dpkg-shlibdeps -O "$root"/usr/bin/*) | sed -n 's/^shlibs:Depends=//p'
}

install_programs
install_units
install_documents
mkdir -p "$root/DEBIAN"
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@MAINTAINER@/$maintainer/" \
  -e "s/@DEPENDS@/$(dependencies)/" -e "s/@SIZE@/$(du -sk --exclude=DEBIAN "$root" | cut -f1)/" \
  deploy/debian/control >"$root/DEBIAN/control"
install -m 755 -t "$root/DEBIAN" deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
find "$root" -type d -exec chmod 755 {} +
chmod -R go-w,u+rwX,go+rX "$root"
mkdir -p "$to"
SOURCE_DATE_EPOCH=$(git show -s --format=%ct HEAD) \
  dpkg-deb --root-owner-group -Zxz --build "$root" "$to/tern_${version}_$architecture.deb" >/dev/null
echo "$to/tern_${version}_$architecture.deb"
