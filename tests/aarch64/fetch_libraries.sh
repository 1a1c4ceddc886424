#!/usr/bin/env bash
# fetch_libraries.sh DIRECTORY
#
# Unpacks Debian's arm64 packages of the libraries that the project is built with, and all that these need, into
# DIRECTORY: what cmake/aarch64-linux-gnu.cmake takes as BONSAI_SYSROOT, and QEMU as the system's libraries. It needs no
# root, and leaves this machine's own packages and lists of them alone.
set -euo pipefail
directory=$1
root=$(cd "$(dirname "$0")/../.." && pwd)

libraries=$("$root/dev.sh" packages | grep -E '^lib|-dev$')
compiler=$(aarch64-linux-gnu-g++ -dumpversion)
packages="libc6-dev libstdc++-${compiler%%.*}-dev $(tr '\n' ' ' <<<"$libraries")"
complete=$directory/complete
[ "$(cat "$complete" 2>/dev/null)" = "$packages" ] && exit
rm -rf "$directory"

apt=$directory/apt
mkdir -p "$apt"/state/lists/partial "$apt"/cache/archives/partial
touch "$apt/state/status"  # nothing is installed
cat >"$apt/configuration" <<END
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
Dir::State "$apt/state";
Dir::State::status "$apt/state/status";
Dir::Cache "$apt/cache";
END
export APT_CONFIG=$apt/configuration
apt-get -q update
# shellcheck disable=SC2086 # a list
apt-get -q install -y --download-only $packages
for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$directory"; done
rm -rf "$apt"

# Links from the root are meant within the directory.
find "$directory" -lname '/*' -printf '%p\t%l\n' | while IFS=$'\t' read -r link target; do
  ln -sfn "$(realpath -m --relative-to "$(dirname "$link")" "$directory$target")" "$link"
done
echo "$packages" >"$complete"
