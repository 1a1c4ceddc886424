#!/usr/bin/env bash
# compare_with_aarch64.sh NATIVE_PROGRAM BUILD_DIRECTORY
#
# Builds cpu_kernels_digest for AArch64 and runs it under QEMU: neon must give the bytes of portable there, and portable
# those that it gives on this machine.
set -euo pipefail
native=$1
build=$2
source=$(cd "$(dirname "$0")" && pwd)

# needs COMMAND PACKAGE
needs() {
  command -v "$1" >/dev/null && return
  echo "skipped: needs $1 (Debian's package $2)"
  exit 77
}
needs aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
needs qemu-aarch64-static qemu-user-static

cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  --toolchain "$source/../../../../cmake/aarch64-linux-gnu.cmake"
cmake --build "$build" -j "$(nproc)"
program=$build/tests/cpu_kernels_digest

qemu-aarch64-static -cpu max "$program" neon >"$build/aarch64.txt"
"$native" portable >"$build/native.txt"
diff "$build/native.txt" "$build/aarch64.txt"
echo "the same on both architectures: $(wc -l <"$build/native.txt") sections"

# A processor without dot products.
expected="cpu_kernels_digest: 'neon' needs dot products of bytes (FEAT_DotProd), not all of which this machine has"
actual=$(qemu-aarch64-static -cpu cortex-a53 "$program" neon 2>&1 || true)
[ "$actual" = "$expected" ] || { echo "found '$actual', expected '$expected'"; exit 1; }
[ "$(qemu-aarch64-static -cpu cortex-a53 "$program" auto 2>&1 >/dev/null)" = "portable: compared with portable" ]
