#!/bin/sh
# pack_test.sh PACK BUILD: what PACK (pack.sh) makes has all that it needs, and pack.sh refuses what it cannot pack.
set -eu
pack=$1
build=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$pack" "$build" "$scratch/packed" >/dev/null

# Each program finds its libraries in the pack, but for the loader's and glibc's own.
for program in bin/bonsai bin/bonsai-synth tests/gpu_device_test tests/gpu_conformance_quick_test lib/bonsai/libbonsai_cuda.so \
  lib/libbonsai.so; do
  libraries=$("$scratch/packed/in" ldd "build/$program")
  strays=$(echo "$libraries" | grep -v "$scratch/packed/lib/" | grep -Ev '(linux-vdso|ld-linux[^ ]*|lib(c|m|dl|rt|pthread|resolv))\.so')  || true
  [ -z "$strays" ] || { echo "$program would load: $strays"; exit 1; }
done
# The packed program, told apart from the built one by its plugins' places, knows its backends and reads a packed model.
"$scratch/packed/in" build/bin/bonsai backends >"$scratch/said"
grep -q "/tree/build/lib/bonsai/libbonsai_cpu.so" "$scratch/said" || { cat "$scratch/said"; exit 1; }
text=$("$scratch/packed/in" build/bin/bonsai run -m models/seedling-q1_0.gguf --backend cpu -p Once --temp 0 -n 4 2>"$scratch/log")
[ -n "$text" ] || { cat "$scratch/log"; exit 1; }

refuses() {
  expected=$1
  shift
  status=0
  said=$("$pack" "$@" 2>&1) || status=$?
  case $status$said in
    "2pack.sh: $expected"*) ;;
    *) echo "pack.sh $*: status $status, $said"; exit 1 ;;
  esac
}
mkdir "$scratch/elsewhere"
refuses "BUILD is $(realpath "$scratch/elsewhere"), expected " "$scratch/elsewhere" "$scratch/other"
refuses "$scratch/packed exists" "$build" "$scratch/packed"
