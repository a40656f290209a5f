#!/usr/bin/env bash
# Installs the Debian 12 packages that Tern needs and that are missing; with none missing it touches nothing.
#   scripts/install_deps.sh             installs
#   scripts/install_deps.sh --check     only says what is missing; exit code 1 if anything is
#   scripts/install_deps.sh --release   installs what scripts/release_check.sh needs, too
set -euo pipefail

packages=(
  # To build.
  g++                    # the compiler, C++20
  cmake                  # 3.25 or newer
  ninja-build            # what cmake drives
  pkg-config             # how cmake finds ZeroMQ, libsodium and cpp-httplib
  ccache                 # makes a second build quick
  git                    # lint and the version ask it
  # Libraries.
  libzmq3-dev            # ZeroMQ: all that travels between daemons
  protobuf-compiler      # protoc: jobs and messages
  libprotobuf-dev        # Protocol Buffers
  libgflags-dev          # flags of the programs
  libgoogle-glog-dev     # logs
  libyaml-cpp-dev        # jobs in YAML
  libdnnl-dev            # oneDNN: layers on the CPU
  libhwy-dev             # Highway: SIMD in kernels
  libsodium-dev          # BLAKE2b digests
  zlib1g-dev             # data files in gzip
  libjpeg62-turbo-dev    # libjpeg-turbo: JPEG images
  libpng-dev             # PNG images
  nlohmann-json3-dev     # JSON lines, headers of safetensors
  libcpp-httplib-dev     # the metrics page
  # To test.
  libgtest-dev           # GoogleTest
  libgmock-dev           # its matchers
  libbenchmark-dev       # Google Benchmark
  clang-format           # the format that lint asks for
  python3                # lint, and scripts that start processes
  python3-onnx           # its checker, on what `tern convert onnx` writes
  iproute2               # ip and tc: benchmarks over links of a set rate
  dataset-fashion-mnist  # the data of the quickstart and of tests
)
case "${1:-}" in
  '' | --check) ;;
  --release)
    packages+=(
      clang-16        # the other compiler
      libomp-16-dev   # its OpenMP
      clang-tidy      # names
      python3-venv    # a place for PyTorch and ONNX Runtime
    ) ;;
  *) echo "install_deps: unknown argument '$1'; known: --check, --release" >&2; exit 64 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo 'install_deps: no dpkg-query here: this is not Debian. Install what corresponds to:' "${packages[@]}" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "install_deps: all ${#packages[@]} packages are installed"
  exit 0
fi
echo 'install_deps: missing:' "${missing[@]}"
[ "${1:-}" != --check ] || exit 1

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo 'install_deps: neither root nor sudo; ask for these packages' >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
