#!/bin/sh
# no_shared_functions.sh OBJECT...: that no tier among these has a function that the linker may take for everybody's. A
# machine without the tier's instructions would run it.
status=0
for object in "$@"; do
  case $object in
  */tier_*)
    shared=$(nm -C "$object" | grep ' W ')
    if [ -n "$shared" ]; then
      echo "$object has functions that other files may be given: $shared"
      status=1
    fi
    tiers=$((tiers + 1))
    ;;
  esac
done
[ "${tiers:-0}" -ge 2 ] || { echo "expected objects of two tiers or more, found ${tiers:-0}"; exit 1; }
exit $status
