#!/usr/bin/env bash
# Everything a newcomer needs, on a bare Debian: set-up (the missing packages), build, run, test.
#
#   ./dev.sh run ARGS...     set-up, build, then build/bin/bonsai run ARGS
#   ./dev.sh build           set-up and a release build into build/
#   ./dev.sh test            set-up, build and the default tests
#   ./dev.sh test --all      every test that this machine can run: also those labelled slow (among them the whole suite
#                            under ASan and UBSan, in a build of its own) and gpu
#   ./dev.sh packages        the names of Debian's packages that the product needs, one a line
set -euo pipefail
started_in=$PWD
cd "$(dirname "$0")"

# What the product needs, and what its tests need beside.
packages=(g++ cmake ninja-build pkg-config
  libboost-dev libboost-filesystem-dev libboost-program-options-dev libspdlog-dev libfmt-dev libtbb-dev
  libpcre2-dev libutf8proc-dev libedit-dev nlohmann-json3-dev libexpected-dev)
test_packages=(libgtest-dev libbenchmark-dev libsimde-dev libboost-context-dev binutils qemu-user dpkg-dev file nodejs)
all_test_packages=(g++-aarch64-linux-gnu qemu-user-static)  # test --all: the kernels on AArch64

say() { printf 'dev.sh: %s\n' "$*" >&2; }

# Runs a command with its output in a log, and shows the log only if it fails.
quietly() {
  local log=$1
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    say "failed: $* (the whole log: $log)"
    return 1
  fi
}

install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "needs root or sudo to install: ${missing[*]}"; exit 1; }
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  quietly "$log" "${as_root[@]}" apt-get update
  quietly "$log" "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
  rm -f "$log"
}

# expect ALLOWED ARGUMENTS...: refuses all arguments but ALLOWED, which may be empty and may come once.
expect() {
  local allowed=$1
  shift
  [ "${1:-}" = "$allowed" ] && [ $# -gt 0 ] && shift
  [ $# -eq 0 ] && return
  say "unknown argument $1: expected ${allowed:-nothing}${allowed:+ or nothing}"
  exit 2
}

# configure PRESET DIRECTORY [CMAKE ARGS...]
configure() {
  local preset=$1 directory=$2
  shift 2
  mkdir -p "$directory"
  quietly "$directory/configure.log" cmake --preset "$preset" "$@"
}

# build DIRECTORY TARGET
build() {
  say "building $2 in $1/"
  quietly "$1/build.log" cmake --build "$1" --target "$2" -j "$(nproc)"
}

run_tests() {
  local labels=(-LE '^(slow|gpu)$')
  [ "${1:-}" = --all ] && labels=()
  ctest --test-dir build --output-on-failure -j "$(nproc)" "${labels[@]}"
}

command=${1:-help}
shift || true
case $command in
  run)
    install_missing "${packages[@]}"
    configure release build -DBONSAI_TESTS=OFF
    build build all
    program=$PWD/build/bin/bonsai
    cd "$started_in"  # where the arguments' paths begin
    exec "$program" run "$@"
    ;;
  build)
    expect '' "$@"
    install_missing "${packages[@]}"
    configure release build -DBONSAI_TESTS=OFF
    build build all
    ;;
  test)
    expect --all "$@"
    [ "${1:-}" = --all ] && test_packages+=("${all_test_packages[@]}")
    install_missing "${packages[@]}" "${test_packages[@]}"
    configure release build -DBONSAI_TESTS=ON
    build build all
    run_tests "$@"
    ;;
  packages)
    expect '' "$@"
    printf '%s\n' "${packages[@]}"
    ;;
  help | -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0" ;;
  *)
    say "unknown command '$command': expected run, build, test or packages"
    exit 2
    ;;
esac
