#!/usr/bin/env bash
# What is to be run on a machine with an NVIDIA device, in pieces of a minute or two each (of an H100 beside 16 cores):
#
#   tests/gpu/run.sh check    BUILD OUT   the tests labelled gpu, several at once, and how long compiling the kernels takes
#   tests/gpu/run.sh bench    BUILD OUT   synthetic 8B and 1.7B models: decode, prompts, first tokens, and products alone;
#                                         options that must not change a text change none; where there is PyTorch, a
#                                         trace of a token's launches (trace.py)
#   tests/gpu/run.sh turns    BUILD OUT   greedy decoding by several plugins, or one with several options, in turns
#   tests/gpu/run.sh sanitize BUILD OUT   compute-sanitizer's four tools over a few small passes, all at once
#
# BONSAI_SHAPES="8b 1.7b" names the models of `bench` and `turns`, BONSAI_MODELS (/tmp) where they are made.
# BONSAI_PLUGINS="PATH[,KEY=VALUE...] ..." names the plugins of `turns` (the build's, with each cuda.fusion).
# BUILD is a build tree of this project, OUT a directory for logs; a line for each step goes to stdout, too.
set -uo pipefail
if [ $# -ne 3 ]; then sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2; fi
what=$1 build=$(realpath "$2") out=$3
mkdir -p "$out"
out=$(realpath "$out")
bonsai=$build/bin/bonsai
models=${BONSAI_MODELS:-/tmp}
rm -f "$out/failed"

# step NAME SECONDS COMMAND...: runs a command with a limit, its output in a log. False if it failed.
step() {
  local name=$1 limit=$2 begin=$SECONDS status=0
  shift 2
  timeout "$limit" "$@" >"$out/$name.log" 2>&1 || status=$?
  printf '%-34s %s  %4d s\n' "$name" "$([ $status -eq 0 ] && echo ok || echo "FAILED ($status)")" \
    $((SECONDS - begin)) | tee -a "$out/summary.txt"
  [ $status -eq 0 ] || touch "$out/failed"
  return $status
}

# side_step: the same beside others, until `meet`.
steps=()
side_step() {
  step "$@" &
  steps+=($!)
}
meet() {
  wait "${steps[@]}"
  steps=()
}

# shards NAME N SECONDS COMMAND...: a test program in N parts, side by side.
shards() {
  local name=$1 n=$2 limit=$3 i
  shift 3
  for ((i = 0; i < n; ++i)); do
    GTEST_TOTAL_SHARDS=$n GTEST_SHARD_INDEX=$i side_step "$name-$i" "$limit" "$@"
  done
}

# show PATTERN NAME: the lines of a step's log that matter.
show() { grep -aE "$1" "$out/$2.log" | tee -a "$out/summary.txt"; }

# NVRTC of a toolkit, or one that only a Python package has brought, may lie where no loader looks, and so do the
# builtins that it loads. Before it is put into the loader's path, it has to serve on its own.
find_nvrtc() {
  # Not `grep -q`, which may leave before `ldconfig` is through: with pipefail that is a failure.
  ldconfig -p 2>/dev/null | grep libnvrtc.so >/dev/null && return
  local found
  found=$(compgen -G '/usr/local/cuda/lib64/libnvrtc.so.*' | head -n 1)
  [ -n "$found" ] || found=$(find / -name 'libnvrtc.so.*' -not -path '/proc/*' 2>/dev/null | head -n 1)
  [ -z "$found" ] && return
  echo "NVRTC: $found" | tee -a "$out/summary.txt"
  if [ "$what" = check ]; then
    mkdir -p "$out/toolkit"
    ln -sfn "$(dirname "$found")" "$out/toolkit/lib64"
    CUDA_HOME=$out/toolkit XDG_CACHE_HOME=/nowhere step nvrtc-by-path 60 "$bonsai" backends cuda
  fi
  export LD_LIBRARY_PATH=$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

# answer NAME: what a step's `run --json` found, without what it measured. Empty if it failed.
answer() { grep -E '^\{' "$out/$1.log" | sed -E 's/,"finish_reason".*//'; }

# same_answer A B: the run fails unless two steps found the same.
same_answer() {
  local line="same answer: $2"
  if [ -z "$(answer "$1")" ] || [ "$(answer "$1")" != "$(answer "$2")" ]; then
    line="ANOTHER ANSWER: $2 than $1"
    touch "$out/failed"
  fi
  echo "$line" | tee -a "$out/summary.txt"
}

# A pass that could not be recorded is said once, and would be measured as if it had been.
complain_of_graphs() { grep -l 'run without graphs' "$out"/*.log | sed 's/^/WITHOUT GRAPHS: /' | tee -a "$out/summary.txt"; }

check() {
  step device 60 "$bonsai" backends
  show 'device|cuda' device
  rm -rf "$out/cache"
  XDG_CACHE_HOME=$out/cache step kernels-cold 300 "$bonsai" backends --warm
  XDG_CACHE_HOME=$out/cache step kernels-warm 60 "$bonsai" backends --warm
  export XDG_CACHE_HOME=$out/cache
  side_step gpu_seedling_test 150 "$build/tests/gpu_seedling_test"
  side_step gpu_device_test 150 "$build/tests/gpu_device_test" --gtest_filter='-*NoByte*'
  side_step gpu_device_test-bytes 150 "$build/tests/gpu_device_test" --gtest_filter='*NoByte*'
  shards gpu_conformance_quick_test 5 150 "$build/tests/gpu_conformance_quick_test"
  shards gpu_conformance_exhaustive_test 5 150 "$build/tests/gpu_conformance_exhaustive_test"
  # Kernels that do not overlap must give the same bytes: a race would show as a difference.
  BONSAI_CONFORMANCE_OPTIONS=cuda.overlap=off side_step without-overlap 150 "$build/tests/gpu_conformance_quick_test" \
    --gtest_filter='*deterministic*:*forward_Q1*:*forward_TQ2*:*forward_F16*'
  meet
  for log in "$out"/gpu_*_test*.log "$out/without-overlap.log"; do
    show '^\[  (PASSED|FAILED)|exact' "$(basename "$log" .log)"
  done
}

model() {  # SHAPE FORMAT
  local file=$models/$1-$2.gguf
  [ -f "$file" ] || "$build/bin/bonsai-synth" --shape "$1" --type "$2" "$file" >/dev/null 2>&1
  echo "$file"
}

bench() {
  export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$out/cache}
  printf 'Once upon a time %.0s' {1..32} | head -c 512 >"$out/prompt"  # a token is a byte
  for shape in ${BONSAI_SHAPES:-8b 1.7b}; do
    for format in Q1_0_G128 TQ2_0_G128; do
      local file
      file=$(model "$shape" "$format")
      step "bench-$shape-$format" 90 "$bonsai" bench -m "$file" --backend cuda --backend-strict -p 512 -n 128 \
        --concurrency 1,8,32 -r 3
      show 'prompt|decode|at once|sequences' "bench-$shape-$format"
      # By default `bench` samples, from the device's largest logits, and the host waits for each token; where the device
      # chooses, the host runs a step ahead.
      step "bench-$shape-$format-greedy" 60 "$bonsai" bench -m "$file" --backend cuda --backend-strict -p 8 -n 128 \
        --preset greedy -r 5
      show 'decode' "bench-$shape-$format-greedy"
      local option
      for option in cuda.graphs=on cuda.fusion=attention cuda.fusion=off cuda.overlap=off cuda.graphs=off; do
        step "greedy-$shape-$format-$option" 60 "$bonsai" run -v -m "$file" --backend cuda --backend-strict -p "Once upon" \
          --temp 0 -n 512 --ignore-eos --json --backend-opt "$option"
        grep -oE '"decode_tokens_per_second":[0-9.]+' "$out/greedy-$shape-$format-$option.log" | tee -a "$out/summary.txt"
        same_answer "greedy-$shape-$format-cuda.graphs=on" "greedy-$shape-$format-$option"
      done
      # A prompt of 512 tokens, and the log-probabilities of what follows it.
      for option in cuda.overlap=off cuda.overlap=on; do
        step "prompt-$shape-$format-$option" 60 "$bonsai" run -m "$file" --backend cuda --backend-strict -f "$out/prompt" \
          --temp 0 -n 64 --ignore-eos --json --logprobs 5 --backend-opt "$option"
        grep -oE '"prompt_tokens":[0-9]+' "$out/prompt-$shape-$format-$option.log" | tee -a "$out/summary.txt"
      done
      same_answer "prompt-$shape-$format-cuda.overlap=off" "prompt-$shape-$format-cuda.overlap=on"
      step "bench-$shape-$format-4096" 60 "$bonsai" bench -m "$file" --backend cuda --backend-strict -p 4096 -n 32 \
        -d 4096 -r 2
      show 'prompt|decode' "bench-$shape-$format-4096"
    done
  done
  step profile-8b 60 "$bonsai" bench -m "$(model 8b Q1_0_G128)" --backend cuda --backend-strict -p 512 -n 64 --profile
  show '.' profile-8b
  if timeout 60 python3 -c 'import torch' 2>/dev/null; then
    step trace-8b 90 python3 "$(dirname "$0")/trace.py" "$build/lib/libbonsai.so" "$build/lib/bonsai/libbonsai_cuda.so" \
      "$(model 8b Q1_0_G128)"
    show ' us ' trace-8b
  fi
  step first-token-8b 60 "$bonsai" run -m "$(model 8b Q1_0_G128)" --backend cuda --backend-strict -p "Once" -n 1 -c 1024
  show 'prompt|memory|load' first-token-8b
  step products 200 "$build/bin/bonsai-bench-cuda" -n 1 8 32 512
  show '.' products
  # One token, by single bits and by bytes: whether `matmul_bits_1` is what to multiply by where the device has both, and
  # `matmul_one` or `matmul_held_8` where it has not, or for other formats.
  local kernel
  for kernel in matmul_bits_1 matmul_one matmul_held_8; do
    # shellcheck disable=SC2046
    step "products-$kernel" 100 "$build/bin/bonsai-bench-cuda" -n 1 -k "$kernel" \
      -f $([ $kernel = matmul_bits_1 ] && echo Q1_0_G128 TQ2_0_G128 || echo Q1_0_G128 TQ2_0_G128 Q2_0_G64 Q4_0 Q8_0)
    show '.' "products-$kernel"
  done
}

turns() {
  local shape plugin plugins=() built=$build/lib/bonsai/libbonsai_cuda.so
  for plugin in ${BONSAI_PLUGINS:-$built $built,cuda.fusion=attention $built,cuda.fusion=off}; do
    plugins+=(--plugin "$plugin")
  done
  for shape in ${BONSAI_SHAPES:-8b 1.7b}; do
    # shellcheck disable=SC2086
    step "turns-$shape" 120 "$build/bin/bonsai-bench-turns" "${plugins[@]}" ${BONSAI_TURNS:--p 32 -n 128 -r 9} \
      --processes 1 "$(model "$shape" Q1_0_G128)"
    show 'decoding' "turns-$shape"
  done
}

sanitize() {
  local tool
  export BONSAI_CONFORMANCE_PLUGIN=$build/lib/bonsai/libbonsai_cuda.so
  # racecheck keeps shadows of all shared memory, and has come to an end of its own over long contexts.
  local small='*forward_Q1_0_G128:*forward_TQ2_0_G128:*forward_F16:*outputs_selection' kv=':*kv_q8_0:*kv_f16'
  for tool in memcheck racecheck initcheck synccheck; do
    side_step "$tool" 140 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/gpu_conformance_quick_test" \
      --gtest_filter="$small$([ "$tool" = memcheck ] && echo "$kv")"
  done
  # The rest of racecheck, each by itself: KV types, heads beyond 128, whose sums come in two rounds.
  local part
  for part in kv_f16 kv_q8_0 forward_heads; do
    side_step "racecheck-$part" 280 compute-sanitizer --tool racecheck --error-exitcode 9 \
      "$build/tests/gpu_conformance_quick_test" --gtest_filter="*$part"
  done
  # Long rows, and every kernel for few tokens.
  for tool in memcheck racecheck synccheck; do
    side_step "$tool-products" 280 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/gpu_device_test" \
      --gtest_filter='CudaProducts.Company*'
  done
  meet
  local log
  for log in "$out"/{mem,race,init,sync}check*.log; do
    show 'SUMMARY|PASSED|FAILED|=========.*rror' "$(basename "$log" .log)"
  done
}

case $what in
  check | bench | turns | sanitize) find_nvrtc; "$what"; complain_of_graphs ;;
  *) echo "unknown piece '$what': expected check, bench, turns or sanitize"; exit 2 ;;
esac
[ ! -e "$out/failed" ]
