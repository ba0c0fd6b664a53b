#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs all tests. --help says more.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/tests
log=
jobs=$(nproc)
only=unit,header_units,compile_fail,docs,model,link,port,gpu
json=
options=()

usage() {
  cat <<'END'
usage: tests/run.sh [options]

Installs what is missing, builds all tests, runs them, and ends with "N passed, N failed, N skipped",
counting doctest cases, compile-fail cases, header units, documents and model checks. Without a CUDA
toolkit or a GPU, what needs them is skipped. Exit status: 0 all passed or skipped, 1 otherwise.

  --only GROUPS    comma-separated, of: unit, header_units, compile_fail, docs, model, link, port,
                   gpu
  --match REGEX    only tests whose name it finds a match in
  --json FILE      write the counts of each group and what they were measured on
  --build-dir DIR  default: build/tests in the repository
  --jobs N         default: the number of cores
  -DNAME=VALUE     passed on to meson setup
  --help
END
}

while [ $# -gt 0 ]; do
  case $1 in
    --only | --match | --json | --build-dir | --jobs)
      if [ $# -lt 2 ]; then
        echo "$1 needs a value; see --help" >&2
        exit 2
      fi
      case $1 in
        --only) only=$2 ;;
        --match) match=$2 ;;
        --json) json=$(realpath -m "$2") ;;
        --build-dir) build=$(realpath -m "$2") ;;
        --jobs) jobs=$2 ;;
      esac
      shift
      ;;
    -D*) options+=("$1") ;;
    --help | -h)
      usage
      exit 0
      ;;
    *)
      echo "unknown argument: $1; see --help" >&2
      exit 2
      ;;
  esac
  shift
done

mkdir -p "$build"
log=$build/run.log
# shellcheck source=support/setup.sh
. "$root/tests/support/setup.sh"
lock "$build"
: >"$log"

find_tools
if ! have_header doctest/doctest.h && ! install_packages doctest-dev; then
  say "doctest is not installed; trying Meson's wrap."
fi
case ,$only, in
  *,unit,*)
    if ! pkg-config --exists eigen3 2>/dev/null && ! install_packages pkg-config libeigen3-dev; then
      say "Eigen is not installed; tests of the example plan will be skipped."
    fi
    ;;
esac
case ,$only, in
  *,model,*)
    if ! command -v spin >/dev/null && ! install_packages spin; then
      say "spin is not installed; model checks will be skipped."
    fi
    ;;
esac
configure "$build" -Dtests=true -Dexamples=false -Dbench=false "${options[@]}"

exec python3 "$root/tests/support/run_tests.py" --root "$root" --build "$build" --log "$log" \
  --meson "$meson" --jobs "$jobs" --only "$only" ${match:+--match "$match"} ${json:+--json "$json"}
