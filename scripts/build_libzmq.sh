#!/usr/bin/env bash
# Builds Debian's libzmq with Tern's patches (scripts/libzmq) into build/libzmq, a static library that cmake then prefers
# to Debian's own: without the patches a stranger who reaches a port can abort a server or make it use memory without
# bound. It also lacks the protocols that Tern does not use (PGM, NORM, Kerberos). Does nothing if it is there already.
#   scripts/build_libzmq.sh         fails if it cannot be built
#   scripts/build_libzmq.sh --try   then says why and succeeds: Debian's libzmq is linked
set -euo pipefail
cd "$(dirname "$0")/.."

case "${1:-}" in
  '' | --try) ;;
  *) echo "build_libzmq: unknown argument '$1'; known: --try" >&2; exit 64 ;;
esac
to=$PWD/build/libzmq
log=$PWD/build/libzmq.log

give_up() {
  if [ "${1:-}" = --try ]; then
    echo "build_libzmq: $2, so Debian's libzmq is linked, without Tern's patches: strangers who reach a port can abort a server"
    exit 0
  fi
  echo "build_libzmq: $2; see $log" >&2
  exit 1
}

# The version that the patches are for, and everything that decides what is built.
wanted=4.3.4
patches=("$PWD"/scripts/libzmq/*.patch)
stamp=$(cat "$PWD/scripts/build_libzmq.sh" "${patches[@]}" | sha256sum | cut -d' ' -f1)
if [ -e "$to/stamp" ] && [ "$(cat "$to/stamp")" = "$stamp" ]; then
  echo "build_libzmq: $to is built"
  exit 0
fi

work=$PWD/build/libzmq.work
trap 'rm -rf "$work"' EXIT
rm -rf "$work"
mkdir -p "$work/sources" "$work/lists/partial" "$work/cache/archives/partial"

# The machine's own package sources of Debian, turned into sources of source code. Nothing of the machine is changed.
source /etc/os-release
[ "${ID:-}" = debian ] || give_up "${1:-}" "this machine is not Debian"
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -r "$file" ] || continue
  case "$file" in
    *.sources)
      awk -v RS= -v ORS='\n\n' -v suite="Suites:[^\n]*$VERSION_CODENAME" '$0 ~ suite' "$file" |
        sed 's/^Types:.*/Types: deb-src/' >"$work/sources/${file##*/}" ;;
    *.list)
      { grep -E "^deb .* $VERSION_CODENAME" "$file" || true; } | sed 's/^deb /deb-src /' >"$work/sources/${file##*/}" ;;
  esac
done
apt=(apt-get -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/sources"
  -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root
  -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o Acquire::Languages=none)

# apt checks the signature of the lists, and by their digests the source; it also applies Debian's patches.
download() {
  timeout 120 "${apt[@]}" update && cd "$work" && timeout 120 "${apt[@]}" source zeromq3
}
(download) >"$log" 2>&1 || give_up "${1:-}" "the source of Debian's package zeromq3 cannot be downloaded"
source=("$work"/zeromq3-*/)
version=$(cd "${source[0]}" && dpkg-parsechangelog -S Version)
case "$version" in
  "$wanted"-*) ;;
  *) give_up "${1:-}" "Debian's zeromq3 is $version, and Tern's patches are for $wanted" ;;
esac

# `set -e` has no effect in a function whose result is tested.
build() {
  cd "${source[0]}" || return
  for file in "${patches[@]}"; do patch -p1 --fuzz=0 <"$file" || return; done
  local launcher=()
  if command -v ccache >/dev/null; then
    export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
    launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  local hardening='-O2 -fstack-protector-strong -fstack-clash-protection -fcf-protection -D_FORTIFY_SOURCE=2'
  cmake -S . -B obj -G Ninja "${launcher[@]}" -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX="$work/made" \
    -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_FLAGS="$hardening" \
    -DCMAKE_CXX_FLAGS="$hardening -D_GLIBCXX_ASSERTIONS -DNDEBUG" \
    -DBUILD_SHARED=OFF -DBUILD_STATIC=ON -DBUILD_TESTS=OFF -DWITH_PERF_TOOL=OFF -DWITH_DOC=OFF -DWITH_DOCS=OFF \
    -DENABLE_CPACK=OFF -DENABLE_CLANG=OFF -DENABLE_DRAFTS=OFF -DENABLE_WS=OFF -DWITH_TLS=OFF -DWITH_LIBBSD=OFF \
    -DWITH_OPENPGM=OFF -DWITH_NORM=OFF -DENABLE_CURVE=ON -DWITH_LIBSODIUM=ON &&
    grep -q 'define ZMQ_HAVE_CURVE' obj/platform.hpp && grep -q 'define ZMQ_USE_LIBSODIUM' obj/platform.hpp &&
    cmake --build obj -j "$(nproc)" && cmake --install obj
}
(build) >>"$log" 2>&1 || give_up "${1:-}" "libzmq cannot be built (see $log)"

rm -rf "$to"
mkdir -p "$to/doc"
cp -r "$work/made/include" "$work/made/lib" "$to"
cp "${source[0]}/COPYING.LESSER" "${patches[@]}" "$to/doc"
cp "${source[0]}/debian/copyright" "$to/doc/libzmq.copyright"
echo "$version" >"$to/version"
echo "$stamp" >"$to/stamp"
echo "build_libzmq: built $to from Debian's zeromq3 $version in $SECONDS s"
