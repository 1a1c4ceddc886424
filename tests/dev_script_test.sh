#!/bin/sh
# dev_script_test.sh SCRIPT: that dev.sh refuses what it does not know.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$1" "$scratch/dev.sh"  # of a directory in which nothing could be built

refuses() {
  expected=$1
  shift
  status=0
  said=$("$scratch/dev.sh" "$@" 2>&1) || status=$?
  [ "$status" -eq 2 ] && [ "$said" = "dev.sh: $expected" ] && return
  echo "dev.sh $*: status $status, $said"
  exit 1
}

refuses "unknown argument --anything: expected nothing" build --anything
refuses "unknown argument x: expected nothing" packages x
refuses "unknown argument --al: expected --all or nothing" test --al
refuses "unknown argument x: expected --all or nothing" test --all x
refuses "unknown command 'biuld': expected run, build, test or packages" biuld
