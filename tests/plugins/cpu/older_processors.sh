#!/usr/bin/env bash
# older_processors.sh BONSAI MODEL...: that processors without AVX-512, AVX2 or AVX, as QEMU emulates them, get the kernels
# that they can run, and the text that this machine gets. What a tier's file is compiled with must not leak into code
# that runs everywhere, which only a processor without those instructions shows.
set -euo pipefail
bonsai=$1
shift

qemu=$(command -v qemu-x86_64 || command -v qemu-x86_64-static) || {
  echo "skipped: needs qemu-x86_64 (Debian's package qemu-user)"
  exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# tell MODEL [COMMAND...]: a text, its prompt long enough for kernels of many vectors. The summary goes to a file.
tell() {
  local model=$1
  shift
  "$@" "$bonsai" run -m "$model" --backend cpu -t 2 --temp 0 -n 12 \
    -p "Once upon a time there lived a King who had one son and three daughters, and the youngest of them" 2>"$scratch/summary"
}

for model in "$@"; do
  expected=$(tell "$model")
  for processor in Nehalem:portable SandyBridge:portable Haswell:avx2; do
    name=${processor%:*}
    kernel=${processor#*:}
    actual=$(tell "$model" "$qemu" -cpu "$name") || {
      echo "$model on $name: exit status $?"
      cat "$scratch/summary"
      exit 1
    }
    if ! grep -q "^backend .*, kernel $kernel, " "$scratch/summary"; then
      echo "$model on $name: expected kernel $kernel, found: $(grep '^backend' "$scratch/summary")"
      exit 1
    fi
    if [ "$actual" != "$expected" ]; then
      printf '%s on %s: expected\n%s\nfound\n%s\n' "$model" "$name" "$expected" "$actual"
      exit 1
    fi
  done
done
