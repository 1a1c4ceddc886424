#!/usr/bin/env bash
# Configures and builds the `asan` preset and runs the default tests in it.
set -euo pipefail
cd "$1"
export LSAN_OPTIONS=suppressions=$PWD/tests/sanitizers/leaks.supp:print_suppressions=0
cmake --preset asan
cmake --build --preset asan -j "$(nproc)"
ctest --test-dir build-asan --output-on-failure -j "$(nproc)" -LE '^(slow|gpu)$'
