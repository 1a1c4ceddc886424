#!/usr/bin/env bash
# libfuzzer_test.sh SOURCE_DIRECTORY BUILD_DIRECTORY PROGRAMS_DIRECTORY TARGET...: Clang builds the fuzz targets, and
# libFuzzer runs each for a while, from the seeds that the programs have.
set -euo pipefail
source=$1 build=$2 programs=$3
shift 3
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_UNITY_BUILD=ON \
  -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DBONSAI_LIBFUZZER=ON
cmake --build "$build" -j "$(nproc)" --target "$@"
for target in "$@"; do
  corpus=$build/corpus/$target
  mkdir -p "$corpus"
  "$programs/$target" --write-corpus "$corpus"
  "$build/tests/$target" -max_total_time=30 "$corpus"
done
