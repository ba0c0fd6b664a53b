#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs an example: examples/run.sh [NAME] [arguments of the example].
# Without a NAME it is colocate, the main job. Runs on the GPU where there is one, else on the host
# device. What is missing is installed first. Standard output is the example's alone.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")

is_example() {
  case $1 in . | .. | */*) return 1 ;; esac
  [ -d "$here/$1" ] || [ -f "$here/$1.cpp" ] || [ -f "$here/$1.cu" ]
}

name=colocate
case ${1:-} in
  '' | -*) ;;
  *)
    name=$1
    shift
    is_example "$name" || {
      echo "There is no example or option '$name'; --help lists the options." >&2
      exit 2
    }
    ;;
esac

dir=$root/build/examples
log=$dir/run.log
mkdir -p "$dir"
# shellcheck source=../tests/support/setup.sh
. "$root/tests/support/setup.sh"
lock "$dir"
: >"$log"

find_tools
if [ "$name" = plan ]; then
  pkg-config --exists eigen3 2>/dev/null || need pkg-config libeigen3-dev
fi
options=(-Dtests=false -Dexamples=true -Dbench=false -Dbuildtype=release)
# Without a GPU nothing compiled by nvcc would ever run.
have_gpu || options+=(-Dcuda=disabled)
configure "$dir" "${options[@]}"
[ -n "$(ninja -C "$dir" -t query "examples/$name" 2>/dev/null)" ] ||
  die "The example $name needs a CUDA toolkit and a GPU; there is none here."
build "$dir" "examples/$name"
exec "$dir/examples/$name" "$@" 9>&-
