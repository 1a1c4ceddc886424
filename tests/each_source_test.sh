#!/usr/bin/env bash
# each_source_test.sh SOURCE_DIRECTORY BUILD_DIRECTORY: compiles the product's sources one by one, which finds includes
# that are missing and come from others where several sources are compiled as one.
set -euo pipefail
cmake -S "$1" -B "$2" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_UNITY_BUILD=OFF -DBONSAI_TESTS=OFF
cmake --build "$2" -j "$(nproc)"
