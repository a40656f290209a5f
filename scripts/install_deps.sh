#!/usr/bin/env bash
# Installs the missing ones of the Debian 12 packages that Tern needs; changes nothing if all are installed.
#   scripts/install_deps.sh             installs
#   scripts/install_deps.sh --check     only lists missing packages; exits with 1 if there are any
#   scripts/install_deps.sh --release   also installs the packages of scripts/release_check.sh
set -euo pipefail

packages=(
  # To build.
  g++                    # the compiler, C++20
  cmake                  # 3.25 or newer
  ninja-build            # the build tool that cmake generates files for
  pkg-config             # cmake finds ZeroMQ, libsodium, ISA-L and libmicrohttpd with it
  dpkg-dev               # unpacks Debian's source of libzmq (scripts/build_libzmq.sh)
  ccache                 # makes rebuilds fast
  git                    # used by lint and for the version
  # Libraries.
  libzmq3-dev            # ZeroMQ: messages between daemons
  protobuf-compiler      # protoc: jobs and messages
  libprotobuf-dev        # Protocol Buffers
  libcli11-dev           # CLI11: command lines and their --help
  libgflags-dev          # flags of glog
  libgoogle-glog-dev     # logs
  libyaml-cpp-dev        # jobs in YAML
  libdnnl-dev            # oneDNN: layers on the CPU
  libhwy-dev             # Highway: SIMD in kernels
  libsodium-dev          # BLAKE2b digests
  libisal-dev            # ISA-L: CRC-32C, the checksum of messages
  zlib1g-dev             # data files in gzip
  libjpeg62-turbo-dev    # libjpeg-turbo: JPEG images
  libpng-dev             # PNG images
  nlohmann-json3-dev     # JSON lines, headers of safetensors
  libmicrohttpd-dev      # metrics and status over HTTP
  libboost-dev           # Boost.Beast: `tern top` reads the status over HTTP
  libeigen3-dev          # Eigen: eigenvectors of a covariance, for `tern whiten`
  libncurses-dev         # `tern top` in the terminal
  # To test.
  libgtest-dev           # GoogleTest
  libgmock-dev           # its matchers
  libbenchmark-dev       # Google Benchmark
  libboost-context-dev   # Boost.Context: fibers, the threads of a simulated GPU
  clang-format           # the formatter that lint requires
  python3                # lint, and scripts that start processes
  python3-onnx           # checks files of `tern convert onnx`
  espeak-ng              # speaks the sentences of python/examples/make_speech.py
  iproute2               # ip and tc: benchmarks over links with a limited rate
  dataset-fashion-mnist  # the data of the quickstart and of tests
)
case "${1:-}" in
  '' | --check) ;;
  --release)
    packages+=(
      clang-16        # the second compiler
      libomp-16-dev   # its OpenMP
      libclang-rt-16-dev # its sanitizers and libFuzzer: scripts/fuzz.sh
      clang-tidy      # names
      prometheus      # asks every query of the dashboard, and checks the alerts
      chromium-headless-shell # shows the page of a job
      libnss-wrapper  # names that come late and vanish
      openmpi-bin     # starts a job
      tmux            # a terminal for `tern top`
      python3-venv    # a place for PyTorch, ONNX Runtime and the schemas of Kubernetes
      lintian         # judges the Debian package
      mmdebstrap      # a bare root of Debian to install it in
      buildah         # makes the OCI image
      umoci           # unpacks it
      runc            # runs it
      slurm-wlm       # a Slurm of two nodes
      munge           # who is who in it
      systemd-container # boots a systemd in a container
      openssh-server  # the hosts of tests/e2e/launch_ssh_test.py
      openssh-client  # reaches them
    ) ;;
  *) echo "install_deps: unknown argument '$1'; known: --check, --release" >&2; exit 64 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo 'install_deps: dpkg-query not found; this is not Debian. Install the packages that correspond to:' "${packages[@]}" >&2
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
  command -v sudo >/dev/null || { echo 'install_deps: needs root or sudo to install these packages' >&2; exit 1; }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
