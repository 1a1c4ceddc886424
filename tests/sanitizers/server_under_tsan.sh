#!/usr/bin/env bash
# Configures the `tsan` preset and builds and runs the HTTP server's tests in it: of the programs whose threads share
# something, the one that needs no oneTBB. That hands over work in code of its own, where ThreadSanitizer does not look,
# and so sees races with every backend that computes on this machine.
set -euo pipefail
cd "$1"
cmake --preset tsan
cmake --build --preset tsan -j "$(nproc)" --target http_server_test
build-tsan/tests/http_server_test
