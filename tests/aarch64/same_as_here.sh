#!/usr/bin/env bash
# same_as_here.sh BONSAI BUILD_DIRECTORY
#
# Builds the program, the CPU backend and bonsai-plugin-check for AArch64, and runs them under QEMU, with dot products
# and without: logits, texts, a conversation, embeddings and a session on disk must be, byte for byte, those of BONSAI,
# this machine's program; and the CPU backend must pass the conformance suite there.
set -euo pipefail
native=$1
build=$2
root=$(cd "$(dirname "$0")/../.." && pwd)

skip() { echo "skipped: $*"; exit 77; }
# needs COMMAND PACKAGE
needs() { command -v "$1" >/dev/null || skip "needs $1 (Debian's package $2)"; }
needs aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
needs qemu-aarch64-static qemu-user-static
needs apt-get apt

mkdir -p "$build"
build=$(cd "$build" && pwd)
libraries=$build/libraries
"$root/tests/aarch64/fetch_libraries.sh" "$libraries" >"$build/fetch.log" 2>&1 ||
  skip "Debian's arm64 packages are not to be had here: $(tail -n 1 "$build/fetch.log")"
cmake -S "$root" -B "$build/program" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBONSAI_TESTS=OFF -DBONSAI_CUDA=OFF \
  --toolchain "$root/cmake/aarch64-linux-gnu.cmake" -DBONSAI_SYSROOT="$libraries"
cmake --build "$build/program" -j "$(nproc)" --target bonsai bonsai_cpu bonsai_models bonsai-plugin-check
program=$build/program/bin/bonsai

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# emulated PROCESSOR COMMAND...
emulated() {
  local processor=$1
  shift
  qemu-aarch64-static -cpu "$processor" -L "$libraries" "$@"
}

fail() { echo "$*"; cat "$scratch/errors"; exit 1; }

# expect_same PROCESSOR COMMAND ARGUMENTS...: what bonsai COMMAND prints when it reads `input`.
expect_same() {
  local processor=$1
  shift
  "$native" "$@" >"$scratch/here" 2>"$scratch/errors" <<<"$input" || fail "here: $*: exit status $?"
  emulated "$processor" "$program" "$@" >"$scratch/there" 2>"$scratch/errors" <<<"$input" ||
    fail "$processor: $*: exit status $?"
  cmp "$scratch/here" "$scratch/there" || fail "$processor: $*: not the same"
}

# expect_kernel PROCESSOR KERNEL
expect_kernel() {
  emulated "$1" "$program" run -p "Once" -n 1 2>"$scratch/errors" >/dev/null || fail "$1: exit status $?"
  grep -q "^backend .*, kernel $2, " "$scratch/errors" || fail "$1: expected kernel $2"
}

input="Tell me of the King"
tokens=12,7,1000,3,3,41,902,5,77,6,1500,2
prompt="Once upon a time there lived a King who had one son and three daughters, and the youngest of them"
for processor in max:neon cortex-a53:portable; do
  kernel=${processor#*:}
  processor=${processor%:*}
  expect_kernel "$processor" "$kernel"
  for model in "$root"/models/seedling-*.gguf; do
    for kv in f16 q8_0 f32; do
      expect_same "$processor" logits --backend cpu --json -m "$model" --kv "$kv" --tokens "$tokens"
    done
    expect_same "$processor" run --backend cpu -m "$model" -t 3 -p "$prompt" --seed 12 -n 24
    expect_same "$processor" run --backend cpu -m "$model" -p "$prompt" --temp 0 -n 24 --lookup \
      --json-schema '{"type": "string"}'
  done
  expect_same "$processor" chat --backend cpu --temp 0 -n 16
  expect_same "$processor" embed --backend cpu --json -p "A tale of two cities"
  expect_same "$processor" tokenize --ids -p "Füchse & 狐, 🦊"
  "$native" run --backend cpu -p "$prompt" --temp 0 -n 8 --save-session "$scratch/session" \
    >/dev/null 2>"$scratch/errors" || fail "here: --save-session: exit status $?"
  expect_same "$processor" run --backend cpu --load-session "$scratch/session" --temp 0 -n 12
done

# All checks but the one that looks at the process's memory, in which QEMU keeps what it knows of former threads.
check=$build/program/bin/bonsai-plugin-check
backend=$build/program/lib/bonsai/libbonsai_cpu.so
only=()
names=$(emulated max "$check" --list "$backend" | awk '$1 != "lifetime.leaks" {print $1}')
for name in $names; do only+=(--only "$name"); done
emulated max "$check" --in-process "${only[@]}" "$backend" >"$scratch/errors" 2>&1 || fail "the conformance suite"
tail -n 1 "$scratch/errors"
