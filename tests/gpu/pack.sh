#!/usr/bin/env bash
# Packs what tests/gpu/run.sh needs, for a machine that has an NVIDIA device and nothing to build with:
#
#   tests/gpu/pack.sh BUILD DIR      here; BUILD is a build tree of this checkout, and DIR is made
#   DIR/in tests/gpu/run.sh check build OUT      there, from anywhere: a command, with the tree around it as it is here;
#                                                OUT is taken from within that tree, unless it begins with a /
#
# DIR has the stripped programs and the shared libraries that they load (all but glibc's), the models and golden files,
# 31 MB. Test programs know files by where they were built, so `in` links the checkout's path to what was packed, or
# that of its build tree; it does so only where nothing is.
set -euo pipefail
if [ $# -ne 2 ]; then sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; fi
source=$(realpath "$(dirname "$0")/../..")
build=$(realpath "$1")
if [ "$build" != "$source/build" ]; then
  echo "pack.sh: BUILD is $build, expected $source/build: test programs look for their files there" >&2
  exit 2
fi
if [ -e "$2" ]; then echo "pack.sh: $2 exists" >&2; exit 2; fi
tree=$2/tree
mkdir -p "$tree"/build/{bin,tests,lib/bonsai} "$tree"/tests/gpu "$2/lib"

programs=(bin/bonsai bin/bonsai-synth bin/bonsai-bench-cuda bin/bonsai-bench-turns tests/gpu_device_test
  tests/gpu_seedling_test tests/gpu_conformance_quick_test tests/gpu_conformance_exhaustive_test)
libraries=(lib/bonsai/libbonsai_cpu.so lib/bonsai/libbonsai_cuda.so lib/libbonsai.so)
for file in "${programs[@]}" "${libraries[@]}"; do strip -o "$tree/build/$file" "$build/$file"; done
cp -r "$source/tests/data" "$tree/tests/"
cp "$source"/tests/gpu/{run.sh,trace.py} "$tree/tests/gpu/"
mkdir "$tree/models"
cp "$source"/models/*.gguf "$tree/models/"

# Of glibc's libraries those of the other machine are used: they belong to its loader.
glibc='^(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|resolv))\.so'
for file in "${programs[@]}" "${libraries[@]}"; do ldd "$build/$file"; done |
  awk '$3 ~ "^/" { print $3 }' | sort -u | while read -r library; do
  [[ $(basename "$library") =~ $glibc ]] || cp -L "$library" "$2/lib/"
done

cat >"$2/in" <<SCRIPT
#!/usr/bin/env bash
# Made by tests/gpu/pack.sh: runs a command in the packed tree, as if it had been built here.
set -euo pipefail
here=\$(realpath "\$(dirname "\$0")")
source='$source'
# Links of packs that are gone are made anew.
if [ ! -e "\$source" ]; then
  mkdir -p "\$(dirname "\$source")"
  ln -sfn "\$here/tree" "\$source"
elif [ ! -e "\$source/build" ]; then  # a checkout that nothing was built in
  ln -sfn "\$here/tree/build" "\$source/build"
fi
export LD_LIBRARY_PATH=\$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
cd "\$here/tree"
exec "\$@"
SCRIPT
chmod +x "$2/in"
du -sh "$2"
